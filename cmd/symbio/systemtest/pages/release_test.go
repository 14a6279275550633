//go:build system && linux

package pages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"symbio/internal/community/waittest"
)

// commit makes dir a repository of one commit with the files of the checkout, with changes that are in no commit yet.
func commit(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(waittest.Context(t), "bash", "-euo", "pipefail", "-c", `
		git ls-files -zco --exclude-standard | (xargs -0 ls -d 2>/dev/null || true) | tar -cf - -T - | tar -xf - -C "$0"
		cd "$0" && git init -q && git add -A
		git -c user.name=a -c user.email=a@localhost -c commit.gpgsign=false commit -qm "a release"
		git -c user.name=a -c user.email=a@localhost tag -m "a release" v0.9.1`, dir)
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A release of one commit has the same bytes wherever it is built, whatever the environment says for other builds, and its
// packages can be installed.
func TestReleaseIsTheSameInEveryDirectory(t *testing.T) {
	t.Parallel()
	var sums []string
	var dist string
	first, second := t.TempDir(), t.TempDir()
	commit(t, first)
	if out, err := exec.CommandContext(waittest.Context(t), "git", "clone", "-q", first, second).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	for dir, flags := range map[string]string{first: "-buildvcs=false", second: "-race"} {
		cmd := exec.CommandContext(waittest.Context(t), "make", "-s", "release", "TARGETS=linux/amd64")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS="+flags, "CGO_ENABLED=1", "TZ=America/Lima", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make release: %v\n%s", err, out)
		}
		dist = filepath.Join(dir, "dist")
		text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases of one commit differ:\n%s\n%s", sums[0], sums[1])
	}
	names := strings.Join(regexp.MustCompile(`symbio_\S+`).FindAllString(sums[0], -1), " ")
	if want := "symbio_0.9.1_linux_amd64 symbio_0.9.1_linux_amd64.cdx.json symbio_0.9.1_linux_amd64.deb symbio_0.9.1_linux_amd64.rpm symbio_0.9.1_share.tar.gz"; names != want {
		t.Errorf("the release has %s, want %s", names, want)
	}

	root := t.TempDir()
	sh := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(waittest.Context(t), "sh", "-ec", line, root)
		cmd.Dir = dist
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	sh(`dpkg-deb -x *.deb "$0"`)
	if got := sh(`"$0/usr/bin/symbio" version`); !strings.HasPrefix(got, "symbio v0.9.1\ncommit ") || strings.Contains(got, "changes") {
		t.Errorf("the program of the package says %q", got)
	}
	if got := sh(`dpkg-deb -f *.deb Package Version Architecture`); got != "Package: symbio\nVersion: 0.9.1\nArchitecture: amd64\n" {
		t.Errorf("the package says %q", got)
	}
	inDeb := regexp.MustCompile(`(?m)\./(usr/\S+[^/\s])$`).FindAllStringSubmatch(sh("dpkg-deb -c *.deb"), -1)
	inRPM := sh("rpm -qp --list *.rpm")
	for _, file := range inDeb {
		if name := strings.Replace(file[1], "zsh/vendor-completions", "zsh/site-functions", 1); !strings.Contains(inRPM, "/"+name+"\n") {
			t.Errorf("/%s is in the .deb and not in the .rpm:\n%s", name, inRPM)
		}
	}
	for _, name := range []string{"usr/bin/as-service", "usr/lib/systemd/system/symbio.service", "usr/share/man/man1/symbio-nodes-drain.1.gz",
		"usr/share/bash-completion/completions/symbio", "usr/share/zsh/vendor-completions/_symbio", "usr/share/fish/vendor_completions.d/symbio.fish",
		"usr/share/doc/symbio/bom.cdx.json", "usr/share/doc/symbio/copyright"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	for module, of := range map[string]string{"google.golang.org/grpc": "copyright", `"name": "google.golang.org/grpc"`: "bom.cdx.json"} {
		if text, err := os.ReadFile(filepath.Join(root, "usr/share/doc/symbio", of)); err != nil || !strings.Contains(string(text), module) {
			t.Errorf("%s does not name %s (%v)", of, module, err)
		}
	}
}
