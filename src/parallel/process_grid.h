// process_grid.h: the ranks of a training and the groups that each belongs to.
//
//   ProcessGrid grid(world.group(), layout);              // every rank; the layout has passed CheckLayout
//   grid.place().tensor, grid.tensor().size()             // this rank's place, and the group along one axis
//   ProcessGrid::Alone()                                  // one process: every group has one rank
//
// Determinism: places follow from ranks alone.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "parallel/layout.h"

namespace samestep {

class ProcessGrid {
 public:
  ProcessGrid(Communicator& world, const Layout& layout);
  // Of a program that runs alone; lives as long as the program.
  static ProcessGrid& Alone();

  const Layout& layout() const { return layout_; }
  const RankPlace& place() const { return place_; }
  Communicator& world() const { return *world_; }
  Communicator& tensor() const { return *tensor_; }      // the ranks that share data and pipeline place
  Communicator& data() const { return *data_; }          // those that hold the same part of the model
  Communicator& pipeline() const { return *pipeline_; }  // the stages, first to last
  bool first_stage() const { return place_.pipeline == 0; }
  bool last_stage() const { return place_.pipeline == layout_.pipeline - 1; }

 private:
  Communicator* world_;
  Layout layout_;
  RankPlace place_;
  std::unique_ptr<Communicator> tensor_, data_, pipeline_;
};

}  // namespace samestep
