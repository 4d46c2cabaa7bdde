//! Capabilities of the reader's screen.

/// Capabilities of the reader's screen. Formats for programs ignore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to write ANSI colours. The caller decides, by `NO_COLOR` and the kind of output.
    pub color: bool,
    /// Width in columns, clamped to 40 to 100.
    pub width: usize,
    /// Whether to show everything, even if it does not fit a screen.
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
