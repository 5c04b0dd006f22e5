#include "ridge/tile/trace/traffic_counts.h"

#include "ridge/base/ceil_div.h"

namespace ridge::tile::trace {
namespace {

ViewTraffic& find_or_add_view(std::vector<ViewTraffic>& rows, const void* view, int element_bytes) {
  for (ViewTraffic& x : rows)
    if (x.view == view) return x;
  rows.push_back({.view = view, .element_bytes = element_bytes});
  return rows.back();
}

}  // namespace

bool Cache::find_or_insert(const Key& key, Index bytes) {
  if (const auto found = where_.find(key); found != where_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return true;
  }
  if (bytes > capacity_) return false;
  while (used_ + bytes > capacity_) {
    used_ -= order_.back().second;
    where_.erase(order_.back().first);
    order_.pop_back();
  }
  order_.push_front({key, bytes});
  where_[key] = order_.begin();
  used_ += bytes;
  return false;
}

ViewTraffic& TrafficCounter::find_load_traffic(const void* view, int element_bytes) {
  return find_or_add_view(counts.loads, view, element_bytes);
}

bool TrafficCounter::mark_kept(const BoxLoad& x) {
  const Retention keep = x.is_left ? left_ : right_;
  if (keep == Retention::no) return false;
  const Cache::Key key{x.view, x.batch, x.along.begin, x.k.begin};
  if (keep == Retention::all) return !kept_.insert(key).second;
  const auto [newest, is_new] = newest_.try_emplace(x.view, key);
  const bool same = !is_new && newest->second == key;
  newest->second = key;
  return same;
}

void TrafficCounter::load(const BoxLoad& x) {
  ViewTraffic& row = find_load_traffic(x.view, x.element_bytes);
  const Index depth = size_inside(x.k, x.view->cols);
  ++row.calls;
  row.requested_bytes += size_inside(x.along, x.view->rows) * depth * x.element_bytes;
  row.shared_bytes += x.along.size * x.k.size * x.element_bytes;
  if (mark_kept(x)) return;
  const Index bytes = size_inside(x.share, x.view->rows) * depth * x.element_bytes;
  row.global_bytes += bytes;
  if (bytes == 0) return;
  if (!has_cache_ || !cache_.find_or_insert({x.view, x.batch, x.share.begin, x.k.begin}, bytes))
    row.memory_bytes += bytes;
}

void TrafficCounter::count_multiply(const RecordedLoad* a, int a_parts, const RecordedLoad* b, int b_parts) {
  if (a_parts == 0 || b_parts == 0) return;
  Index rows = 0, cols = 0, all_rows = 0, all_cols = 0;
  for (int i = 0; i < a_parts; ++i) {
    rows += size_inside(a[i].rows, a[i].matrix->rows);
    all_rows += a[i].rows.size;
  }
  for (int i = 0; i < b_parts; ++i) {
    cols += size_inside(b[i].rows, b[i].matrix->rows);
    all_cols += b[i].rows.size;
  }
  const Index deep = a->k.size;
  counts.flops += 2 * rows * cols * size_inside(a->k, a->matrix->cols);
  counts.issued_flops += 2 * all_rows * all_cols * deep;
  const Index a_times = block_.cols > 0 ? ceil_div(all_cols, block_.cols) : 1;
  const Index b_times = block_.rows > 0 ? ceil_div(all_rows, block_.rows) : 1;
  for (int i = 0; i < a_parts; ++i) {
    ViewTraffic& row = find_load_traffic(a[i].matrix, 0);
    row.register_bytes += a[i].rows.size * deep * row.element_bytes * a_times;
  }
  for (int i = 0; i < b_parts; ++i) {
    ViewTraffic& row = find_load_traffic(b[i].matrix, 0);
    row.register_bytes += b[i].rows.size * deep * row.element_bytes * b_times;
  }
}

void TrafficCounter::count_read(const EpilogueInput& x, Index rows, Index cols) {
  if (x.data == nullptr) return;
  const int element_bytes = bytes_of(x.format);
  ViewTraffic& row = find_load_traffic(&x, element_bytes);
  const auto extent = [](Index n, Index stride) { return stride == 0 && n > 1 ? 1 : n; };
  const Index bytes = extent(rows, x.row_stride) * extent(cols, x.col_stride) * element_bytes;
  ++row.calls;
  row.requested_bytes += bytes;
  row.global_bytes += bytes;
  row.memory_bytes += bytes;
}

void TrafficCounter::count_column_read(const EpilogueInput& x, Index rows, Index cols, Index first_column) {
  const Cache::Key key{&x, 0, first_column, cols};
  const auto before = newest_.find(&x);
  if (x.row_stride != 0 || x.batch_stride != 0 || before == newest_.end() || before->second != key) {
    newest_[&x] = key;
    return count_read(x, rows, cols);
  }
  ViewTraffic& row = find_load_traffic(&x, bytes_of(x.format));
  ++row.calls;
  row.requested_bytes += cols * (x.col_stride == 0 ? 0 : bytes_of(x.format));
}

void TrafficCounter::store(const void* view, int element_bytes, Index rows, Index cols) {
  ViewTraffic& row = find_or_add_view(counts.stores, view, element_bytes);
  const Index bytes = rows * cols * element_bytes;
  ++row.calls;
  row.requested_bytes += bytes;
  row.global_bytes += bytes;
  row.memory_bytes += bytes;
}

}  // namespace ridge::tile::trace
