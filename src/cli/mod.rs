//! Parse, dispatch, print, exit. The only module that writes to the terminal.
