// Package symbiov1 is what crosses the wire: the Peer service between nodes and the Control service
// between the command line and a node. The .proto files are the source; `make generate` writes the rest.
package symbiov1
