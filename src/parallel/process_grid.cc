#include "parallel/process_grid.h"

#include "base/check.h"

namespace samestep {

ProcessGrid::ProcessGrid(Communicator& world, const Layout& layout)
    : world_(&world), layout_(layout), place_(PlaceOf(layout, world.rank())) {
  SAMESTEP_CHECK_EQ(layout.ranks(), world.size());
  // Every rank splits in the same order.
  tensor_ = world.Split(place_.pipeline * layout.data + place_.data, place_.tensor);
  data_ = world.Split(place_.pipeline * layout.tensor + place_.tensor, place_.data);
  pipeline_ = world.Split(place_.data * layout.tensor + place_.tensor, place_.pipeline);
}

ProcessGrid& ProcessGrid::Alone() {
  static const std::unique_ptr<Communicator> one = OneProcess();
  static ProcessGrid grid(*one, Layout{});
  return grid;
}

}  // namespace samestep
