//! Tables of the agbot: agreements, claims, partitions, decisions.
