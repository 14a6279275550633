package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/security/protected"
	"symbio/security/sandbox"
)

func TestObeyedFilesAreNotCreated(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		var line strings.Builder
		for _, name := range protected.Masked() {
			fmt.Fprintf(&line, "mkdir -p %q; echo x >%q; echo x >%q/x;", filepath.Dir(name), name, name)
		}
		if _, err := sh(t, t.Context(), b, dir, line.String()); err != nil {
			t.Fatal(err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
			t.Errorf("there is now %v, %v", all, err)
		}
	})
}

func TestNoFileRunsAsItsOwner(t *testing.T) {
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		copyFile(t, self, filepath.Join(dir, "self"))
		r, err := sh(t, t.Context(), b, dir, `chmod u+s f; chmod 2755 f; chmod 6777 f; install -m 4755 /bin/true g; chmod 755 f && mkdir d && touch d/x && cp -p f h && echo usual; ./self attempt special k`)
		if err != nil || r.Stdout.String() != "usual\n" {
			t.Errorf("%v: %s%s", err, r.Stdout, r.Stderr)
		}
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if st, err := e.Info(); err != nil || st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s has the mode %v, %v", e.Name(), st.Mode(), err)
			}
		}
	})
}

// special makes files that run as their owner, without chmod.
func special(args []string) error {
	for i, flags := range []int{syscall.O_CREAT | syscall.O_WRONLY, syscall.O_CREAT | syscall.O_EXCL} {
		if fd, err := syscall.Open(fmt.Sprint(args[0], i), flags, 0o4755); err == nil {
			syscall.Close(fd)
		}
	}
	return syscall.Mknod(args[0]+"n", syscall.S_IFREG|0o6755, 0)
}

func TestRootsOwnFilesAreHidden(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("they are closed to this user anyway")
	}
	atEachLevel(t, levels, func(t *testing.T, b *sandbox.Box) {
		if r, err := sh(t, t.Context(), b, t.TempDir(), "cat /etc/shadow /etc/shadow- /etc/gshadow"); err != nil || r.Stdout.String() != "" {
			t.Errorf("%v: it reads %q", err, r.Stdout)
		}
	})
}

// Settings of other version control programs, by which these run programs: what is there stays, and what a command makes is set
// aside, also where a directory on the way is a link.
func TestSettingsOfOtherVersionControlAreNotChanged(t *testing.T) {
	atEachLevel(t, []sandbox.Level{sandbox.Native, sandbox.Bwrap}, func(t *testing.T, b *sandbox.Box) {
		for _, name := range protected.VersionControl() {
			dir := t.TempDir()
			for _, path := range []string{name, "mine/" + name} {
				if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755),
					os.WriteFile(filepath.Join(dir, path), []byte("mine"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			top, _, _ := strings.Cut(name, "/")
			line := fmt.Sprintf(`for d in . mine new; do mkdir -p $d/%[2]s; for f in $d/%[1]s; do echo evil >$f; rm -f $f; echo evil >$f; done; done 2>/dev/null
				mkdir -p link/evil; mv new/%[3]s/* link/evil; cp -R mine/%[3]s/. link/evil; ln -s evil link/%[3]s; echo x >mine/%[3]s/other; echo done`, name, filepath.Dir(name), top)
			r, err := sh(t, t.Context(), b, dir, line)
			if err != nil || r.Stdout.String() != "done\n" {
				t.Fatalf("%s: %v, %s%s", name, err, r.Stdout, r.Stderr)
			}
			for path, want := range map[string]string{name: "mine", "mine/" + name: "mine", "new/" + name: "", "link/" + name: "",
				"mine/" + top + "/other": "x\n"} {
				text, _ := os.ReadFile(filepath.Join(dir, path))
				if string(text) != want {
					t.Errorf("%s: %s has %q, want %q; set aside: %q", name, path, text, want, r.Disarmed)
				}
			}
		}
	})
}
