package command

import (
	"runtime/debug"

	"symbio/agent/node"
)

// VersionInfo describes a build. The JSON names are a contract.
type VersionInfo struct {
	// Version is the version of the module, "devel" for a build from a working copy.
	Version string `json:"version"`
	// Commit is the hash of the commit, "unknown" without version control.
	Commit string `json:"commit"`
	// Go is the version of the toolchain, such as go1.26.1.
	Go string `json:"go"`
	// Protocol is the version of the protocol that this build speaks to other nodes.
	Protocol string `json:"protocol"`
}

// Version returns what the Go toolchain recorded in this binary. A build outside of a module or a
// repository has "devel" and "unknown". A commit with uncommitted changes ends in "+changes".
func Version() VersionInfo {
	v := VersionInfo{Version: "devel", Commit: "unknown", Protocol: node.Protocol}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	v.Commit += dirty
	return v
}
