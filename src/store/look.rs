//! Looks: one inspect per object at a time.

/// What to look at. Two names of one image are two targets; their answers meet in the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    /// A container, by id.
    Container(String),
    /// An image, by id or reference.
    Image(String),
}
