package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/security/audit"
	"symbio/security/identity"
)

// anchored is a log with checkpoints: a configuration, and the log's directory.
func anchored(t *testing.T) (audit.Config, string) {
	t.Helper()
	dir := t.TempDir()
	authority, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.LoadOrCreateKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := authority.Issue(key)
	if err != nil {
		t.Fatal(err)
	}
	return audit.Config{MaxFile: 2000, Checkpoint: filepath.Join(dir, "checkpoints", "n.json"), Signer: self}, filepath.Join(dir, "log")
}

// against verifies a log against its checkpoint.
func against(t *testing.T, cfg audit.Config, dir string) (audit.Report, error) {
	t.Helper()
	c, err := audit.ReadCheckpoint(cfg.Checkpoint)
	if err != nil {
		return audit.Report{}, err
	}
	return audit.Verify(t.Context(), dir, nil, audit.Point{Seq: c.Seq, Hash: c.Hash})
}

func TestCheckpointShowsWhatIsMissing(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"the last record cut off": func(t *testing.T, dir string) {
			last := files(t, dir)[len(files(t, dir))-1]
			text := bytes.TrimSuffix(read(t, last), []byte("\n"))
			write(t, last, text[:bytes.LastIndexByte(text, '\n')+1])
		},
		"the last file removed": func(t *testing.T, dir string) {
			if err := os.Remove(files(t, dir)[len(files(t, dir))-1]); err != nil {
				t.Fatal(err)
			}
		},
		"all removed": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"all written anew, and longer": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			l := open(t, dir, audit.Config{MaxFile: 2000})
			for i := range 20 {
				if err := l.Append(entry(i + 20)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := anchored(t)
			fill(t, dir, cfg, 10)
			if r, err := against(t, cfg, dir); err != nil || r.Records != 10 || len(r.Unanchored) != 0 {
				t.Fatalf("before: %+v, %v", r, err)
			}
			damage(t, dir)
			if _, err := against(t, cfg, dir); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("verify: %v, want ErrBroken", err)
			}
			if _, err := audit.Open(dir, cfg); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), cfg.Checkpoint) {
				t.Errorf("open: %v, want ErrBroken with what to do", err)
			}
		})
	}
}

func TestCheckpointComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dir := anchored(t)
		cfg.MaxFile = 1 << 20
		l := open(t, dir, cfg)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		last := func() uint64 {
			synctest.Wait()
			c, err := audit.ReadCheckpoint(cfg.Checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			return c.Seq
		}
		add := func(n int) {
			for i := range n {
				if err := l.Append(entry(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(1)
		before := last() // the first record of a file has one at once
		add(2)
		time.Sleep(time.Minute)
		if after := last(); before > 2 || after != 4 {
			t.Errorf("at record %d before a minute, %d after; want 4 after", before, after)
		}
		add(300)
		if n := last(); n < 256 {
			t.Errorf("at record %d of 304, want 256 or more", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n := last(); n != 304 {
			t.Errorf("at record %d at the end, want 304", n)
		}
	})
}

// A node that was killed has records after its checkpoint: they are held by the chain, which the next start looks at.
func TestRecordsAfterTheCheckpointAreTakenByTheirChain(t *testing.T) {
	cfg, dir := anchored(t)
	fill(t, dir, cfg, 5)
	fill(t, dir, audit.Config{MaxFile: cfg.MaxFile}, 5) // without checkpoints, as if it was killed
	c, err := audit.ReadCheckpoint(cfg.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, dir, cfg, 0)
	if after, err := audit.ReadCheckpoint(cfg.Checkpoint); err != nil || after.Seq <= c.Seq {
		t.Errorf("the start left the checkpoint at %d, before %d; %v", after.Seq, c.Seq, err)
	}
	if r, err := against(t, cfg, dir); err != nil || r.Records != 10 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMissingCheckpointIsNoted(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, cfg audit.Config){
		"removed": func(t *testing.T, cfg audit.Config) {
			if err := os.Remove(cfg.Checkpoint); err != nil {
				t.Fatal(err)
			}
		},
		"changed": func(t *testing.T, cfg audit.Config) {
			write(t, cfg.Checkpoint, bytes.Replace(read(t, cfg.Checkpoint), []byte(`"seq":`), []byte(`"seq":1`), 1))
			if _, err := audit.ReadCheckpoint(cfg.Checkpoint); !errors.Is(err, audit.ErrBroken) {
				t.Errorf("read: %v, want ErrBroken", err)
			}
		},
		"of another node": func(t *testing.T, cfg audit.Config) {
			other, dir := anchored(t)
			fill(t, dir, other, 1)
			write(t, cfg.Checkpoint, read(t, other.Checkpoint))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := anchored(t)
			fill(t, dir, cfg, 3)
			change(t, cfg)
			fill(t, dir, cfg, 1)
			if r, err := against(t, cfg, dir); err != nil || len(r.Unanchored) != 1 || r.Unanchored[0] != 5 {
				t.Errorf("%+v, %v: want record 5 without a checkpoint", r, err)
			}
		})
	}
}

func TestSecretsAreNotRecorded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, audit.Config{})
	e := entry(0)
	e.Args = []byte(`{"command":"PASSWORD=hunter2 make"}`)
	e.Rule, e.Why = "Bash(curl -u me:hunter2)", "token=hunter2x"
	if err := l.Append(e); err != nil {
		t.Fatal(err)
	}
	if text := read(t, files(t, dir)[0]); bytes.Contains(text, []byte("hunter2")) ||
		!bytes.Contains(text, []byte("PASSWORD=[redacted] make")) {
		t.Errorf("recorded %s", text)
	}
}
