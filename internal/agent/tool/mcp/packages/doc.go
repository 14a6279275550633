// Package packages installs the packages whose programs are MCP servers, in the place of the
// programs that download them at each start, such as npx and uvx.
//
// The one idea: a download and a server are two commands in two sandboxes. Parse reads from an
// entry which package it runs. Store.Resolve lets the package manager write a lock, which names
// each package, its version and its hash, and installs nothing. A person sees that and says yes.
// Plan.Install installs exactly what the lock says, without running anything of it.
//
// Guarantees: the manager has the machine's network, and reads the system, itself and its
// configuration, which names the registry and may have a login at it; it writes one new directory.
// It runs in a sandbox also where the node's is off. No script of a package runs, and nothing is
// built or cloned. A package that is not from a registry by its name, or has no hash, is refused.
// An installed package is not changed: an update is another directory.
//
// It does not check what the packages do. They run as servers, each in the sandbox of its entry.
package packages
