package command

import (
	"runtime/debug"

	"symbio/agent/node"
)

// VersionInfo is what a build knows of itself; the names are a contract.
type VersionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Protocol string `json:"protocol"`
}

// Version is what the build noted of itself.
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
