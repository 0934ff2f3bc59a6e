//! Floor 3: Templates, policies and the copy engine; bulk-load traces.
