package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
)

func (a *App) cmdVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Version, commit, Go and protocol",
		Example: "  symbio version --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if a.json {
				return a.printJSON(v)
			}
			_, err := fmt.Fprintf(a.Out, "symbio %s\ncommit %s\n%s\nprotocol %s\n", v.Version, v.Commit, v.Go, v.Protocol)
			return err
		},
	}
}

type versionJSON struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Protocol string `json:"protocol"`
}

// version is what the build noted of itself.
func version() versionJSON {
	v := versionJSON{Version: "devel", Commit: "unknown", Protocol: node.Protocol}
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
