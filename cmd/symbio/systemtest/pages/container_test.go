//go:build system && linux

package pages_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
)

const repository = "../../../.."

// containerHost is a machine on which the lines of the page about containers are run. Its containers and images are its own.
type containerHost struct {
	*symbiotest.Host
	dir string
	env []string
}

// newContainerHost returns a machine with the address that the page names.
func newContainerHost(t *testing.T, number int) *containerHost {
	t.Helper()
	h := &containerHost{Host: symbiotest.PlugIn(t, number), dir: t.TempDir()}
	h.Run("ip", "addr", "flush", "dev", "eth0", "scope", "global")
	h.Run("ip", "addr", "add", fmt.Sprintf("192.168.1.%d/24", 9+number), "dev", "eth0")
	h.env = containerEnv(t)
	t.Cleanup(func() {
		out, err := h.shell("podman rm --all --force --time 5; podman volume rm --all --force").CombinedOutput()
		t.Logf("machine %d: %v\n%s", number, err, out)
	})
	return h
}

// containerEnv returns the environment of Buildah and Podman with a store of their own, and limits that need no privileges.
func containerEnv(t *testing.T) []string {
	t.Helper()
	dir := symbiotest.ShortDir(t)
	storage, conf := filepath.Join(dir, "storage.conf"), filepath.Join(dir, "containers.conf")
	for name, text := range map[string]string{
		storage: "[storage]\ndriver = \"vfs\"\ngraphroot = \"" + dir + "/images\"\nrunroot = \"" + dir + "/run\"\n",
		conf: "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n[engine]\ncgroup_manager = \"cgroupfs\"\n" +
			"events_logger = \"file\"\nlock_type = \"file\"\ntmp_dir = \"" + dir + "/tmp\"\nvolume_path = \"" + dir + "/volumes\"\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"CONTAINERS_STORAGE_CONF=" + storage, "CONTAINERS_CONF=" + conf, "BUILDAH_ISOLATION=chroot"}
}

// shell returns lines of the page as a shell of the machine.
func (h *containerHost) shell(lines string) *exec.Cmd {
	cmd := h.Inside("sh", "-ec", lines)
	cmd.Dir, cmd.Env = h.dir, append(cmd.Env, h.env...)
	return cmd
}

// follows runs the lines of a block and returns what they print.
func (h *containerHost) follows(lines string) string {
	h.T.Helper()
	out, err := h.shell(lines).CombinedOutput()
	if err != nil {
		h.T.Fatalf("machine %d: %v\n%s\n%s", h.Number, err, lines, out)
	}
	h.T.Logf("machine %d$ %s\n%s", h.Number, lines, out)
	return string(out)
}

// ownMounts gives the calling goroutine, and what it starts, mounts of its own, among them one version of control groups:
// Podman's runtime takes no mixture of two.
func ownMounts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Unmount("/sys/fs/cgroup/unified", 0) // most systems have no mixture
}

// The page about containers leads to three containers on three machines that are one cluster and work for each other.
func TestContainerPageGivesThreeNodes(t *testing.T) {
	for _, program := range []string{"buildah", "podman"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skip("needs buildah and podman, run by root")
		}
	}
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		page, err := os.ReadFile(filepath.Join(repository, "cmd/symbio/docs/containers.md"))
		if err != nil {
			t.Fatal(err)
		}
		ownMounts(t)
		machines := []*containerHost{newContainerHost(t, 1), newContainerHost(t, 2), newContainerHost(t, 3)}
		third := func(lines string) string { return strings.ReplaceAll(lines, "--hostname kitchen", "--hostname studio") }
		printed, ids := "", map[string]bool{}
		for _, b := range symbiotest.BlocksOf(string(page)) {
			t.Logf("line %d", b.Line)
			switch b.Words["on"] {
			case "builder":
				buildImage(t, b.Text, machines)
			case "first":
				printed = machines[0].follows(b.Text)
			case "second":
				shown := joinLine.FindStringSubmatch(b.Text)
				for i, h := range machines[1:] {
					lines := b.Text
					if shown != nil {
						pasted := joinLine.FindStringSubmatch(printed)
						if pasted == nil || shown[1] != pasted[1] {
							t.Fatalf("the page shows %q, and %q was printed", shown, printed)
						}
						lines = strings.Replace(lines, shown[0], pasted[0], 1)
						printed = machines[0].follows("podman exec symbio symbio cluster token")
					}
					if i == 1 {
						lines = third(lines)
					}
					h.follows(lines)
				}
			case "each":
				for _, h := range machines {
					if strings.Contains(b.Text, "symbio invoke") {
						h.meetsTwo()
					}
					got := h.follows(b.Text)
					if strings.Contains(b.Text, "symbio invoke") && !strings.Contains(got, `"protocol"`) {
						t.Errorf("machine %d: no other node answered:\n%s", h.Number, got)
					}
				}
			default:
				t.Errorf("line %d: nothing checks this block", b.Line)
			}
			if b.Words["on"] == "second" { // joined first, then upgraded: the same three nodes
				for _, h := range machines {
					for _, id := range h.meetsTwo() {
						ids[id] = true
					}
				}
			}
		}
		if len(ids) != 3 {
			t.Errorf("the nodes had ids %v, want three that stay", ids)
		}
	})
}

// buildImage makes the image as the page says, and puts it on the machines.
func buildImage(t *testing.T, lines string, machines []*containerHost) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "symbio.tar")
	cmd := exec.CommandContext(waittest.Context(t), "sh", "-ec", strings.Replace(lines, "-o symbio.tar", "-o "+file, 1))
	cmd.Dir, cmd.Env = repository, append(os.Environ(), append(containerEnv(t), "MAKEFLAGS=")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", lines, err, out)
	}
	for _, h := range machines {
		if err := os.Link(file, filepath.Join(h.dir, "symbio.tar")); err != nil {
			t.Fatal(err)
		}
	}
}

// meetsTwo waits until the node of the machine's container is connected with two others, and returns the ids of all three.
func (h *containerHost) meetsTwo() []string {
	h.T.Helper()
	var ids []string
	symbiotest.AwaitProgram(h.T, "two others", func() bool {
		out, _ := h.shell("podman exec symbio symbio nodes --json").Output()
		ids = nil
		for _, m := range regexp.MustCompile(`"id": ?"([0-9a-f]{32})"`).FindAllStringSubmatch(string(out), -1) {
			ids = append(ids, m[1])
		}
		return len(ids) == 3 && len(regexp.MustCompile(`"state": ?"connected"`).FindAllString(string(out), -1)) == 2
	})
	slices.Sort(ids)
	return ids
}
