//! Each seed's tools, there and back: the model's call becomes ours, our outcome becomes what its model reads.

mod calls;
mod fixture;
mod lists;
mod names;
mod results;
mod shown;
mod texts;
