//! Engine: compiles a virtual network to namespaces, routes and nftables; DHCP, DNS and metadata plumbing. Knows no AWS word.
