//! Actions: what keys do, regardless of which keys.

use super::Page;

/// What a key does, or a click that has the same effect; its line in the table of keys puts it into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table of keys is the documentation")]
pub enum Action {
    Quit,
    Close,
    Go(Page),
    NextPage,
    PreviousPage,
    Pause,
    StepBack,
    StepForward,
    FarBack,
    FarForward,
    PreviousChange,
    NextChange,
    Oldest,
    Newest,
    Slower,
    Faster,
    ZoomIn,
    ZoomOut,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Enter,
    TakeProfile,
    NextTable,
    PreviousTable,
    NextSort,
    SortMenu,
    /// By the column with this name.
    Sort(&'static str),
    Reverse,
    Tree,
    Threads,
    Search,
    SearchNext,
    Filter,
    Kill,
    Setup,
    Jobs,
    NextJob,
    Output,
    Export,
    Copy,
    Mouse,
    Refresh,
    Redraw,
    Suspend,
}

impl Action {
    /// Whether it is about processes: on any other page it opens theirs first.
    pub fn is_for_processes(self) -> bool {
        let table = matches!(self, Self::NextSort | Self::SortMenu | Self::Sort(_) | Self::Reverse | Self::Tree);
        table || matches!(self, Self::Threads | Self::Search | Self::SearchNext | Self::Filter | Self::Kill)
    }

    /// Rows by which it moves in a list with so many visible rows.
    pub fn rows(self, visible: usize) -> Option<isize> {
        let page = isize::try_from(visible).unwrap_or(isize::MAX).max(1);
        Some(match self {
            Self::Up => -1,
            Self::Down => 1,
            Self::PageUp => -page,
            Self::PageDown => page,
            Self::Top => isize::MIN,
            Self::Bottom => isize::MAX,
            _ => return None,
        })
    }
}
