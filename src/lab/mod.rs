//! Floor 5: The conductor: arms times rounds make a document; one adapter for each kind of arm.
