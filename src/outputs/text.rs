//! The verdict for a person.
