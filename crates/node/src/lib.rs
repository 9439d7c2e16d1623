//! The agent that makes one machine match its intent by driving the engines.
