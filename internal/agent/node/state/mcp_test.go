//go:build unix

package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"symbio/agent/tool/mcp"
)

func TestForeignTrustFileTrustsNoServer(t *testing.T) {
	dir := t.TempDir()
	book := Dir(dir).MCP()
	server := mcp.Server{Name: "files", Hash: "0123", Text: "{}"}
	if book.Trusted(server) {
		t.Error("trusted before anybody said so")
	}
	if err := errors.Join(book.Trust(server), book.Pin("0123", map[string]string{"read": "abc"})); err != nil {
		t.Fatal(err)
	}
	if !book.Trusted(server) || book.Pinned("0123", "read") != "abc" {
		t.Errorf("trusted %t, pinned %q", book.Trusted(server), book.Pinned("0123", "read"))
	}
	for _, path := range []string{"mcp/trusted/0123", "mcp/tools/0123"} {
		if err := os.Chmod(filepath.Join(dir, path), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if book.Trusted(server) || book.Pinned("0123", "read") == "abc" {
		t.Errorf("files that all may write are believed: trusted %t, pinned %q", book.Trusted(server), book.Pinned("0123", "read"))
	}
}
