// A product and the collective that brings its rows or takes them away, in chunks of rows: while one chunk is on its
// way another is multiplied. Each rank begins with what it need not wait for. Of n ranks, pieces in k chunks:
//   gathered, then multiplied     its own piece; then, as they come, the next rank's piece, the one after that, …; by
//                                 launches, the last one in chunks, since nothing is left to be multiplied while it
//                                 comes; by one kernel, each in strips of its columns
//   multiplied, then scattered    the chunks of the next rank's piece, which go on to the rank before it; then those
//                                 of the piece after that one, each added to what came of it; its own last
//   multiplied, then all added    the same, and each chunk of its own goes to all others when it is whole
// What is here knows of rows and seconds alone; chunks on devices: in_chunks.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/ranks/lower.h"
#include "ridge/ops/product/call.h"

namespace ridge::ranks {

inline constexpr std::int64_t most_chunks = ops::ScatteredRows::most_chunks;  // of a piece
struct Chunks {
  enum class When { never, where_faster, always };
  When when = When::where_faster;
  std::int64_t count = 0;  // of each piece; gathered by launches: of the last; 0: as are predicted to be fastest
};

// Two acts, one behind the other, whose rows do not look at each other.
struct ChunkedPair {
  std::size_t compute = 0, shift = 0;  // of Acts::acts
  Collective kind = Collective::all_gather;
  std::string dim;  // the first axis of all that has rows
  bool gathers() const { return kind == Collective::all_gather; }
};
// The pair that begins with this act; none: they do not go in chunks. `stored`: tensors that are wanted whoever reads
// them.
std::optional<ChunkedPair> chunked_pair(const Acts& acts, std::size_t act, const Device& device,
                                        const std::vector<int>& stored);

// What is moved, among the tensors of the compute act's program.
int tensor_between(const Acts& acts, const ChunkedPair& pair);

// The pieces of the pair's rows by the ranks that share them, in the order of their places.
struct RowPiece {
  int rank = 0;
  Piece rows;
};
std::vector<RowPiece> row_pieces(const Acts& acts, const ChunkedPair& pair, const Device& device);

// What is computed of so many rows.
Program chunk_program(const Acts& acts, const ChunkedPair& pair, std::int64_t rows);

// At most so many chunks of a piece: all but the last of one length, a multiple of 128 rows, which is the height of a
// product's tile.
std::vector<Piece> cut_rows(const Piece& rows, std::int64_t chunks);

// How one kernel goes through a product whose rows are gathered, or whose sums are scattered. Without rows: it does
// not.
struct WalkShape {
  bool gathers = false;
  std::int64_t columns = 0;  // of the product's result; gathered: of what is gathered
  std::int64_t scale = 1;    // rows of either to one row of the pieces
};
ops::RowWalk walk(const std::vector<RowPiece>& pieces, std::size_t place, const WalkShape& shape, std::int64_t chunks);

// How many chunks of scattered sums, of a piece, the copy engine takes at once: each copy takes a while beside its
// bytes, but what is far from a run's end waits for that, and all that is behind it. In the walk's first piece runs
// grow up to their length, for nothing is under way before the first.
struct Run {
  std::size_t step = 0;  // of the walk's pieces
  Piece chunks;          // of that piece
};
struct Runs {
  std::int64_t first = 1, middle = 1, last = 1;                        // of the pieces that go on
  std::int64_t given = 1;                                              // of the sums that all want
  std::vector<Run> all(std::size_t ranks, std::int64_t chunks) const;  // in the order of the walk
};
// The word of each chunk is that of its run: their numbers.
void set_words(ops::ScatteredRows& rows, const std::vector<Run>& runs);

// In which order each rank sends the strips of its piece to those that gather them, as they need them: one kernel's
// tiles are multiplied in waves, so many for a piece, and all tiles of a wave begin with the first strip.
struct Sending {
  std::size_t step = 1, strip = 0;  // to the rank so many places before this one
};
std::vector<Sending> sending_order(std::size_t ranks, std::size_t strips, double waves);

struct ChunkSeconds {
  double own = 0;      // a whole piece multiplied, where it was gathered; else a chunk that is added to what came
  double other = 0;    // a chunk of the last piece; else a chunk to which nothing has come
  double sending = 0;  // of a chunk, while no other is sent
  double wait = 0;     // of a message: before the first copy of what is gathered; behind each copy of sums
};
// Of ranks that do the same at once, with a launch for each chunk.
double chunked_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkSeconds& seconds);

// The same with one kernel for all chunks of all pieces.
struct KernelSeconds {
  double each = 0;     // a chunk multiplied
  double storing = 0;  // of sums over the links, of a chunk, where the kernel stores it there, and nobody else wants it
  double carrying = 0;  // else, or gathered: of a chunk's bytes by the copy engine
  double copy = 0;      // of any copy beside its bytes
  double wait = 0;      // of a message
  double waves = 1;     // in which a piece is multiplied, by all multiprocessors at once
};
double one_kernel_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const Runs& runs,
                    const KernelSeconds& seconds);

}  // namespace ridge::ranks
