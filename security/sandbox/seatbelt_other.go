//go:build !(linux && (amd64 || arm64))

package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// probeTime is how long the whole probe may take: some 10 ms for each command are usual.
const probeTime = 10 * time.Second

// trySeatbelt returns nil if commands can read, write, connect and start programs where a policy lets them, and cannot
// where it does not.
func trySeatbelt(ctx context.Context, cfg Config) error {
	dir, err := os.MkdirTemp(cfg.TempDir, "symbio-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	cfg.Hide = append(slices.Clip(cfg.Hide), file)
	b := &Box{cfg: cfg, here: machine{level: Seatbelt}}
	free := Policy{Files: Files{Read: []string{"/", dir}, Write: []string{dir}, Show: []string{file}}, Network: NetworkFull, Subprocess: true}
	for _, one := range []struct {
		what    string
		argv    []string
		without func(*Policy)
	}{
		{"read", []string{"/bin/cat", file}, func(p *Policy) { p.Files.Show = nil }},
		{"write", []string{"/usr/bin/touch", file + ".new"}, func(p *Policy) { p.Files.Write = nil }},
		{"connect", []string{"/usr/bin/nc", "-z", "127.0.0.1", port}, func(p *Policy) { p.Network = NetworkNone }},
		{"start a program", []string{"/bin/sh", "-c", `/bin/cat "$0"; exit`, file}, func(p *Policy) { p.Subprocess = false }},
	} {
		held := free
		one.without(&held)
		for may, p := range map[bool]Policy{false: held, true: free} {
			r, err := b.Run(ctx, p, Spec{Argv: one.argv, Dir: "/", Accept: true})
			if err != nil || (r.Code == 0) != may {
				return fmt.Errorf("a command that may %s (%v) ended with %d, %.200q, %v", one.what, may, r.Code, r.Stderr.String(), err)
			}
		}
	}
	return nil
}
