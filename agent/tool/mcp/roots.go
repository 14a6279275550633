//lint:file-ignore SA1019 roots are deprecated since the protocol of 2026-07-28; servers still use them

package mcp

import (
	"net/url"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// root declares that the client has roots, if the server is told of Config.Root, and returns the
// function that adds it to the client. A server on another machine has no use for a path of this one.
func (s *server) root(can *sdk.ClientCapabilities) func(*sdk.Client) {
	dir := s.m.cfg.Root
	if dir == "" || s.entry.Type != Stdio {
		return func(*sdk.Client) {}
	}
	can.RootsV2 = &sdk.RootCapabilities{}
	at := &url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	return func(c *sdk.Client) { c.AddRoots(&sdk.Root{URI: at.String(), Name: filepath.Base(dir)}) }
}
