//! REPORT: from a summary to bytes. One file per format.
