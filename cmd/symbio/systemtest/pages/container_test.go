//go:build system && linux

package pages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
)

const repository = "../../../.."

// builder builds and runs images, with a store of its own.
type builder struct {
	t     *testing.T
	store []string
}

func (b builder) run(args ...string) string {
	b.t.Helper()
	out, err := b.command(args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("buildah %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (b builder) command(args ...string) *exec.Cmd {
	return exec.CommandContext(waittest.Context(b.t), "buildah", append(slices.Clone(b.store), args...)...)
}

// golang makes the image golang:1.26 of this machine's programs, so that no registry is asked. It returns what to mount in it.
func (b builder) golang() (mounts []string) {
	dir := b.t.TempDir()
	for _, name := range []string{"etc/ssl/certs", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+name, filepath.Join(dir, name)); err != nil {
			b.t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE", "GOPROXY").Output()
	env := strings.Fields(string(out))
	if err != nil || len(env) != 4 {
		b.t.Fatalf("go env: %v\n%s", err, out)
	}
	// The recipe downloads the modules of all systems; inside, no certificate is known with which it could.
	download := exec.CommandContext(waittest.Context(b.t), "go", "mod", "download")
	download.Dir = repository
	if out, err := download.CombinedOutput(); err != nil {
		b.t.Fatalf("go mod download: %v\n%s", err, out)
	}
	certificates, recipe := filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"), filepath.Join(b.t.TempDir(), "Containerfile")
	text := "FROM scratch\nCOPY . /\nENV PATH=/go/bin:/usr/bin:/bin GOROOT=/go GOMODCACHE=/modules GOCACHE=/compiled GOPROXY=" + env[3] + "\n"
	for name, text := range map[string]string{certificates: "none\n", recipe: text} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	b.run("bud", "--isolation", "chroot", "-f", recipe, "-t", "docker.io/library/golang:1.26", dir)
	return []string{"-v", "/usr:/usr:ro", "-v", env[0] + ":/go:ro", "-v", env[1] + ":/modules", "-v", env[2] + ":/compiled"}
}

// The recipe of deploy builds an image, and two containers of it with one volume and one host name are one node.
func TestContainerKeepsItsNode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("buildah"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs buildah, run by root, to build an image")
	}
	store := t.TempDir()
	b := builder{t, []string{"--storage-driver", "vfs", "--root", filepath.Join(store, "images"), "--runroot", filepath.Join(store, "run")}}
	b.run(slices.Concat([]string{"bud", "--isolation", "chroot", "--network", "host", "--pull-never"}, b.golang(),
		[]string{"-f", filepath.Join(repository, "deploy/container/Containerfile"), "-t", "symbio", repository})...)

	volume := t.TempDir()
	if err := os.Chown(volume, 65532, 65532); err != nil { // as podman does with a new volume
		t.Fatal(err)
	}
	container := func(args ...string) []string {
		name := strings.TrimSpace(b.run("from", "--pull-never", "symbio"))
		return slices.Concat([]string{"run", "--isolation", "chroot", "--network", "host", "--hostname", hostname(t), "-v", volume + ":/var/lib/symbio",
			name, "--", "/usr/bin/symbio"}, args)
	}
	made := regexp.MustCompile(`node kitchen \(([0-9a-f]{32})\)`).FindStringSubmatch(b.run(container("cluster", "init")...))
	if made == nil {
		t.Fatal("cluster init named no node kitchen")
	}
	cmd := b.command(container("up", "--listen", "127.0.0.1:0", "--json")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	up := symbiotest.Started(t, cmd)
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // the container's processes, too
	ready := up.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	if ready.ID != made[1] {
		t.Errorf("the second container runs node %s, want %s, which the first one made a cluster for", ready.ID, made[1])
	}
}

// hostname returns that of the containers of deploy/README.md, where all have the same.
func hostname(t *testing.T) string {
	page, err := os.ReadFile(filepath.Join(repository, "deploy/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	runs := regexp.MustCompile(`(?m)^podman run .*$`).FindAllString(string(page), -1)
	for _, line := range runs {
		if !strings.Contains(line, "--hostname kitchen ") {
			t.Errorf("another container has another name, and is another node: %s", line)
		}
	}
	if len(runs) != 2 {
		t.Errorf("the page runs %d containers, want 2", len(runs))
	}
	return "kitchen"
}
