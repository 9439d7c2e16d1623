//! The planner on small VPCs.
