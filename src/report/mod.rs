//! Floor 5: A document rendered; it never measures.
