//go:build system && linux

package fuzzshell_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"symbio/internal/community/waittest"
)

// world is what a script may have an effect on: a workspace, a person's home, other directories, servers and a process.
type world struct {
	t                              *testing.T
	base, workspace, home, outside string
	canaries                       []string // directories in places for temporary files
	mark                           string   // what names begin with in directories that are not this test's
	tcp, udp                       int
	socket                         string
	victim                         *exec.Cmd
	files, state                   map[string]string // as of the last call of effects
	stream, local, abstract        net.Listener
	packets                        net.PacketConn
}

// sharedDirs are directories of the system in which scripts try to make files whose names begin with world.mark.
var sharedDirs = []string{"/etc", "/", "/usr/local/bin", "/opt", "/run", "/dev", "/root", "/var/tmp", "/tmp", "/dev/shm", "/usr/lib", "/var/spool", "/sys/fs/cgroup", "/proc/sys/kernel"}

var worlds atomic.Int64

// project is what the workspace holds.
const project = `git init -q --template= -b main . && git config user.name n && git config user.email n@example.com && mkdir sub .git/info
printf 'one\ntwo\n' > f.txt; printf 'three\n' > sub/g.txt; printf '#!/bin/sh\necho ran\n' > run.sh; chmod +x run.sh
ln -s ../outside/o.txt link-out; ln -s ../outside link-dir
git add . && git commit -qm first && echo three >> f.txt && git commit -qam second && git status >/dev/null`

// newWorld makes a world. In every second one the workspace is in the home, as people have it.
func newWorld(t *testing.T, odd bool) *world {
	t.Helper()
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, mark: fmt.Sprintf("sf%07d-%04d", os.Getpid(), worlds.Add(1))} // as long for each world: scripts have the same length
	w.base = temp + "/" + w.mark + "-world"
	w.home, w.workspace, w.outside = w.base+"/home", w.base+"/ws", w.base+"/outside"
	w.must(os.Mkdir(w.base, 0o755))
	t.Cleanup(func() { os.RemoveAll(w.base) })
	if odd {
		w.workspace, w.outside = w.home+"/src/ws", w.home+"/src/outside"
	}
	for _, dir := range []string{w.workspace, w.outside + "/d", w.home + "/.ssh", w.home + "/.config/git", w.home + "/.local/bin"} {
		w.must(os.MkdirAll(dir, 0o755))
	}
	for _, cache := range []string{".cache/go-build/ab", ".npm", ".cache/pip", ".cargo/registry", "go/pkg/mod"} {
		w.must(os.MkdirAll(w.home+"/"+cache, 0o755))
		w.must(os.WriteFile(w.home+"/"+cache+"/c.txt", []byte("one\n"), 0o644))
	}
	for _, name := range []string{w.outside + "/o.txt", w.home + "/.bashrc", w.home + "/.profile", w.home + "/.gitconfig", w.home + "/.ssh/authorized_keys", w.home + "/.config/git/config", w.home + "/.bash_history"} {
		w.must(os.WriteFile(name, []byte("# one\n"), 0o644))
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		at := dir + "/" + w.mark + "-dir"
		w.must(os.MkdirAll(at+"/d", 0o777))
		t.Cleanup(func() { os.RemoveAll(at) })
		w.must(os.WriteFile(at+"/c.txt", []byte("one\n"), 0o666))
		w.canaries = append(w.canaries, at)
	}
	w.person(project)
	w.serve()
	w.files, w.state = w.snapshot(), w.condition()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// person runs commands as the user of the machine does, in the workspace.
func (w *world) person(commands string) {
	w.t.Helper()
	c := exec.Command("sh", "-c", commands)
	c.Dir, c.Env = w.workspace, []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + w.home}
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
}

// serve listens where scripts try to connect, and starts the process that they try to end.
func (w *world) serve() {
	var err error
	w.stream, err = net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.packets, err = net.ListenPacket("udp", "127.0.0.1:0")
	w.must(err)
	w.socket = w.workspace + "/sock"
	w.local, err = net.Listen("unix", w.socket)
	w.must(err)
	w.abstract, err = net.Listen("unix", "@"+w.mark)
	w.must(err)
	w.tcp, w.udp = w.stream.Addr().(*net.TCPAddr).Port, w.packets.LocalAddr().(*net.UDPAddr).Port
	w.victim = exec.Command("cat")
	w.victim.Dir, w.victim.SysProcAttr = w.outside, &syscall.SysProcAttr{Setpgid: true}
	in, err := w.victim.StdinPipe()
	w.must(err)
	out, err := os.Create(w.home + "/printed")
	w.must(err)
	w.victim.Stdout = out
	w.must(w.victim.Start())
	w.must(out.Close())
	victims = append(victims, w.victim.Process.Pid)
	waittest.Until(w.t, "the process to be cat", func() (any, bool) {
		words, err := os.ReadFile("/proc/" + w.process() + "/cmdline")
		return err, string(words) == "cat\x00"
	})
	w.t.Cleanup(func() {
		in.Close()
		w.victim.Process.Kill()
		w.victim.Wait()
		for _, l := range []interface{ Close() error }{w.stream, w.packets, w.local, w.abstract} {
			l.Close()
		}
	})
}

func (w *world) process() string { return fmt.Sprint(w.victim.Process.Pid) }

// snapshot describes every file of the world, and files with its mark in the system's directories.
func (w *world) snapshot() map[string]string {
	all := map[string]string{}
	add := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			all[path] = err.Error()
			return nil
		}
		all[path] = describe(path)
		return nil
	}
	for _, root := range append([]string{w.base}, w.canaries...) {
		w.must(filepath.WalkDir(root, add))
	}
	for _, dir := range sharedDirs {
		names, err := filepath.Glob(strings.TrimSuffix(dir, "/") + "/" + w.mark + "*")
		w.must(err)
		for _, name := range names {
			if name != w.base && !slices.Contains(w.canaries, name) {
				all[name] = describe(name)
			}
		}
	}
	return all
}

// describe tells the state of a file, in all that a command can change.
func describe(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("mode %o links %d owner %d:%d size %d modified %v changed %v inode %d", st.Mode, st.Nlink, st.Uid, st.Gid, st.Size, time.Unix(st.Mtim.Unix()).Format("15:04:05.000000000"), time.Unix(st.Ctim.Unix()).Format("15:04:05.000000000"), st.Ino)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, _ := os.Readlink(path)
		text += " to " + to
	case unix.S_IFREG:
		content, err := os.ReadFile(path)
		text += fmt.Sprintf(" content %.8x %v", sha256.Sum256(content), err)
	}
	return text
}

// condition describes the process, and what is mounted at the world.
func (w *world) condition() map[string]string {
	all := map[string]string{}
	var affinity unix.CPUSet
	err := unix.SchedGetaffinity(w.victim.Process.Pid, &affinity)
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, w.victim.Process.Pid)
	all["the process's processors and priority"] = fmt.Sprint(affinity.Count(), err, nice)
	for _, name := range []string{"comm", "oom_score_adj", "limits", "cmdline", "stat"} {
		text, err := os.ReadFile("/proc/" + w.process() + "/" + name)
		if name == "stat" && err == nil {
			state := text[bytes.LastIndexByte(text, ')')+2]
			text = fmt.Append(nil, "stopped or dead: ", bytes.IndexByte([]byte("TtZX"), state) >= 0)
		}
		all["the process's "+name] = fmt.Sprintf("%q %v", text, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.must(err)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[4] == "/" || strings.Contains(line, w.base) {
			all["the mount at "+f[4]] = line
		}
	}
	return all
}

// effects returns what has changed since the last call, one line each, and does what the user does next.
func (w *world) effects() (found []string) {
	now := w.snapshot()
	found = append(found, changes(w.files, now)...)
	w.person("git status; git diff; git log -1 || true")
	w.files = w.snapshot()
	for _, line := range changes(now, w.files) {
		if !strings.HasPrefix(line, w.workspace+"/.git\n") && !strings.HasPrefix(line, w.workspace+"/.git/index\n") { // these git itself mends
			found = append(found, "by the user's next git: "+line)
		}
	}
	was := w.state
	w.state = w.condition()
	found = append(found, changes(was, w.state)...)
	for _, l := range []net.Listener{w.stream, w.local, w.abstract} {
		if n := w.contacts(l); n > 0 {
			found = append(found, fmt.Sprintf("%d connections to %v", n, l.Addr()))
		}
	}
	if n := w.datagrams(); n > 0 {
		found = append(found, fmt.Sprintf("%d datagrams to %v", n, w.packets.LocalAddr()))
	}
	return found
}

// changes tells in what two snapshots differ.
func changes(was, is map[string]string) (lines []string) {
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if now, there := is[path]; !there {
			lines = append(lines, path+" is gone")
		} else if now != was[path] {
			lines = append(lines, path+"\n\twas "+was[path]+"\n\tis  "+now)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[path]; !there {
			lines = append(lines, path+" is new: "+is[path])
		}
	}
	return lines
}

var dialled atomic.Int64

// contacts counts the connections that wait: it connects itself, and takes those that came before.
func (w *world) contacts(l net.Listener) (n int) {
	d := net.Dialer{}
	if l.Addr().Network() == "unix" {
		d.LocalAddr = &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@%s-self-%d", w.mark, dialled.Add(1))}
	}
	self, err := d.DialContext(w.t.Context(), l.Addr().Network(), l.Addr().String())
	w.must(err)
	defer self.Close()
	for {
		c, err := l.Accept()
		w.must(err)
		c.Close()
		if c.RemoteAddr().String() == self.LocalAddr().String() {
			return n
		}
		n++
	}
}

// datagrams counts the datagrams that wait.
func (w *world) datagrams() (n int) {
	self, err := net.ListenPacket("udp", "127.0.0.1:0")
	w.must(err)
	defer self.Close()
	_, err = self.WriteTo([]byte("self"), w.packets.LocalAddr())
	w.must(err)
	for {
		_, from, err := w.packets.ReadFrom(make([]byte, 64))
		w.must(err)
		if from.String() == self.LocalAddr().String() {
			return n
		}
		n++
	}
}

// victims are the processes of all worlds.
var victims []int

// leftovers returns the processes that descend from this one, and are neither dead nor victims. Orphans are its children
// (TestMain).
func leftovers(t *testing.T) (found []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents, texts := map[int]int{}, map[int]string{}
	for _, e := range entries {
		var pid, parent int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		var state string
		text := string(stat)
		if _, err := fmt.Sscan(text[strings.LastIndex(text, ")")+1:], &state, &parent); err != nil {
			t.Fatalf("%s: %v", stat, err)
		}
		if parents[pid] = parent; state != "Z" && state != "X" {
			texts[pid] = strings.TrimSpace(text[:strings.LastIndex(text, ")")+1]) + " " + state
		}
	}
	for pid, text := range texts {
		for up := parents[pid]; up > 0; up = parents[up] {
			if up == os.Getpid() && !slices.Contains(victims, pid) {
				found = append(found, text)
				break
			}
		}
	}
	return found
}
