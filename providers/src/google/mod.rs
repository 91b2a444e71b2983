//! What the Google adapters share.
