//! RUN: rounds, blocks, trials. Emits events, prints nothing.
