//! Floor 2: The vocabulary every other wing speaks (labels, samples, stacks, notes, the document) and its text form: bytes in and bytes out, no file.
