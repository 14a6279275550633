package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/security/sandbox"
)

// listen answers each connection to a socket with its name.
func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, filepath.Base(path))
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
}

// answers prints what each of the sockets says.
func answers(sockets []string) error {
	for _, path := range sockets {
		text := []byte("refused")
		if c, err := net.Dial("unix", path); err == nil {
			text, _ = io.ReadAll(c)
		}
		fmt.Printf("%s ", text)
	}
	if _, err := net.ListenPacket("unixgram", "@symbio-test"); err == nil {
		return errors.New("there are datagrams")
	}
	return nil
}

func TestCommandConnectsToTheSocketsThatAreNamed(t *testing.T) {
	top, err := os.MkdirTemp("/var/tmp", "symbio-test-")
	if err != nil {
		t.Skip("no directory outside of /tmp to try it in:", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"hidden/deep", "work"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("hidden", at("link")); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "/proc/self/exe", at("self"))
	inTemp, err := os.MkdirTemp("/tmp", "symbio-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(inTemp) })
	all := []string{at("named"), at("other"), at("work/mine"), at("hidden/deep/named"), at("hidden/deep/other"), inTemp + "/named",
		inTemp + "/other"}
	for _, path := range all {
		listen(t, path)
	}
	all = append(all, at("link/deep/named"))
	if run, err := os.MkdirTemp("/run", "symbio-test-"); err == nil { // root's alone
		t.Cleanup(func() { os.RemoveAll(run) })
		listen(t, run+"/named")
		listen(t, run+"/other")
		all = append(all, "/var"+run+"/named", run+"/named", run+"/other")
	}
	named := []string{at("named"), at("link/deep/named"), inTemp + "/named", at("absent"), top}
	if len(all) > 8 {
		named = append(named, all[8])
	}
	for name, c := range map[string]struct {
		sockets []string
		change  func(*sandbox.Policy)
		want    string
	}{
		"named":        {named, func(*sandbox.Policy) {}, "named refused refused named refused named refused named named named refused "},
		"no network":   {named, func(p *sandbox.Policy) { p.Network = sandbox.NetworkNone }, "named refused refused named refused named refused named named named refused "},
		"full network": {named, func(p *sandbox.Policy) { p.Network = sandbox.NetworkFull }, "named refused refused named refused named refused named named named refused "},
		"none":         {nil, func(*sandbox.Policy) {}, strings.Repeat("refused ", 11)},
		"denied":       {named, func(p *sandbox.Policy) { p.Files.Denied.Hidden = []string{at("named"), at("hidden")} }, "refused refused refused refused refused named refused refused named named refused "},
	} {
		for _, l := range []sandbox.Level{sandbox.Native, sandbox.Bwrap} {
			t.Run(name+"/"+l.String(), func(t *testing.T) {
				b := sandbox.Probe(t.Context(), sandbox.Config{Levels: []sandbox.Level{l}, Env: os.Environ(), Hide: []string{at("hidden")}})
				if s := b.Status(); s.Level != l {
					t.Skipf("this machine does not have the level %v: %s", l, s.Mend)
				}
				p, err := sandbox.Standard(at("work"))
				if err != nil {
					t.Fatal(err)
				}
				p.Files.Sockets = c.sockets
				c.change(&p)
				if err := b.Check(p); err != nil {
					t.Skip(err)
				}
				r, err := b.Run(t.Context(), p,
					sandbox.Spec{Argv: append([]string{at("self"), "attempt", "answers"}, all...), Dir: at("work")})
				want := strings.Join(strings.SplitAfter(c.want, " ")[:len(all)], "")
				if err != nil || r.Code != 0 || r.Stdout.String() != want {
					t.Errorf("status %d, %v: %q, want %q; %s", r.Code, err, r.Stdout.String(), want, r.Stderr)
				}
			})
		}
	}
	p := sandbox.Policy{Files: sandbox.Files{Sockets: named}}
	b := box(t, sandbox.Landlock)
	var refused *sandbox.Refusal
	if err := b.Check(p); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not only to those that are named") {
		t.Errorf("without mounts: %v; want that the others cannot be hidden", err)
	}
}
