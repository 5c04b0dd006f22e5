// says: rows<first, count>(tile): the rows must lie inside the tile
#include "ridge/tile/tile.h"

using namespace ridge::tile;

int main() {
  SharedTile<float, 128, 64> tile;
  (void)rows<0, 1>(tile);
#ifdef BAD
  (void)rows<0, 0>(tile);
#endif
}
