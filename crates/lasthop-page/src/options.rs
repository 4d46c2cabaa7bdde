//! What the reader's screen can do.

/// What the reader's screen can do. Formats for programs ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to write ANSI colours. The caller decides, by `NO_COLOR` and by where it prints.
    pub color: bool,
    /// Columns; clamped to 40 to 100.
    pub width: usize,
    /// Everything, also what does not fit a screen.
    pub verbose: bool,
    /// Whether plots may use characters beyond ASCII.
    pub unicode: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            verbose: false,
            unicode: true,
        }
    }
}
