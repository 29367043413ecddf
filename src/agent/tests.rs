//! An agent against a small hub made for the purpose.
