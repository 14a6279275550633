package skills_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"symbio/actor"
	"symbio/skills"
)

// write makes a file with its directories.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// skill makes a skill's directory; more are further lines of front matter.
func skill(t *testing.T, dir string, more ...string) string {
	t.Helper()
	front := "---\nname: " + filepath.Base(dir) + "\ndescription: A test skill\n"
	for _, line := range more {
		front += line + "\n"
	}
	write(t, filepath.Join(dir, "SKILL.md"), front+"---\n# Do it\n")
	return dir
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

// real is a temporary directory without links in its path.
func real(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func scan(t *testing.T, cfg skills.Config) skills.Catalog {
	t.Helper()
	c, err := skills.Scan(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func user(paths ...string) skills.Config {
	var cfg skills.Config
	for _, p := range paths {
		cfg.Roots = append(cfg.Roots, skills.Root{Path: p, Scope: skills.ScopeUser})
	}
	return cfg
}

func names(c skills.Catalog) []string {
	out := []string{}
	for _, s := range c.Skills {
		out = append(out, s.Name)
	}
	return out
}

// problems are the codes at each path, relative to base.
func problems(base string, ps []skills.Problem) map[string][]string {
	out := map[string][]string{}
	for _, p := range ps {
		rel, err := filepath.Rel(base, p.Path)
		if err != nil {
			rel = p.Path
		}
		for _, d := range p.Diagnostics {
			out[filepath.ToSlash(rel)] = append(out[filepath.ToSlash(rel)], string(d.Code))
		}
	}
	return out
}

func registry(t *testing.T, cfg skills.Config) (*skills.Registry, *actor.System) {
	t.Helper()
	sys := actor.NewSystem(actor.Config{})
	r, err := skills.NewRegistry(sys, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r, sys
}
