//go:build system && linux

package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/internal/agent/tool/shell"
	"symbio/internal/community/waittest"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// marked is in everything that no command may print.
const marked = "SECRET-OF-ANN"

// victim is a machine with something to harm and something to find: a workspace, a home, a directory beside both,
// listeners and a process.
type victim struct {
	t                                    *testing.T
	base, workspace, home, outside, mark string
	tcp, local, abstract                 net.Listener
	pid                                  string
	before                               string
}

var victims atomic.Int64

func newVictim(t *testing.T) *victim {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "symbio-attacks-") // what a private /tmp hides, shows nothing
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	v := &victim{t: t, base: base, home: base + "/home", outside: base + "/outside", mark: fmt.Sprintf("p%d-%d", os.Getpid(), victims.Add(1))}
	v.workspace = v.home + "/ws"
	for name, text := range map[string]string{
		"home/.ssh/id_ed25519": marked, "home/.aws/credentials": marked, "home/.bash_history": marked, "home/.bashrc": "# " + marked, "home/notes": marked,
		"outside/key.pem": marked, "outside/f": "one\n", "home/.cache/go-build/ab/c": "one\n", "home/.npm/c": "one\n", "home/.cargo/registry/c": "one\n",
		"home/ws/f": "one\n", "home/ws/.env": marked, "home/ws/sub/.env": marked, "home/ws/Makefile": "all:\n\techo made > made\n", "home/ws/node_modules/.bin/tool": "#!/bin/sh\n",
	} {
		v.must(os.MkdirAll(filepath.Dir(base+"/"+name), 0o755))
		v.must(os.WriteFile(base+"/"+name, []byte(text), 0o755))
	}
	v.must(os.Symlink(v.outside, v.workspace+"/link"))
	v.must(os.Link(v.workspace+"/.env", v.workspace+"/hard"))
	git := exec.Command("sh", "-c", "git init -q --template= -b main . && git config user.name a && git config user.email a@b && git add f && git commit -qm one")
	git.Dir, git.Env = v.workspace, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + v.home}
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	v.tcp, v.local, v.abstract = v.listen("tcp", "127.0.0.1:0"), v.listen("unix", v.workspace+"/sock"), v.listen("unix", "@"+v.mark)
	c := exec.Command("cat")
	c.Env = []string{"TOKEN=" + marked}
	in, err := c.StdinPipe()
	v.must(err)
	v.must(c.Start())
	t.Cleanup(func() { in.Close(); c.Wait() })
	v.pid = fmt.Sprint(c.Process.Pid)
	v.before = v.state()
	return v
}

func (v *victim) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) listen(network, at string) net.Listener {
	v.t.Helper()
	l, err := net.Listen(network, at)
	v.must(err)
	v.t.Cleanup(func() { l.Close() })
	return l
}

// state describes all files but what commands may change in the workspace, and the devices.
func (v *victim) state() string {
	v.t.Helper()
	var b strings.Builder
	v.must(filepath.WalkDir(v.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && !strings.HasPrefix(path, v.workspace+"/made") && path != v.workspace {
			fmt.Fprintln(&b, path, st.Mode(), st.ModTime().UnixNano(), st.Size())
		}
		return err
	}))
	for _, dir := range []string{"/etc", "/tmp", "/var/tmp", "/dev/shm", "/usr/local/bin", "/run", "/root", "/"} {
		found, err := filepath.Glob(dir + "/" + v.mark + "*")
		v.must(err)
		fmt.Fprintln(&b, found)
	}
	return b.String()
}

// agent returns the tools of an agent, of which nothing is answered.
func (v *victim) agent(level sandbox.Level, preset string, change func(*sandbox.Policy)) (run func(args map[string]any) llm.ToolResult, asked *int) {
	v.t.Helper()
	box := sandbox.Probe(waittest.Context(v.t), sandbox.Config{Levels: []sandbox.Level{level}, Env: []string{"HOME=" + v.home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "OPENAI_API_KEY=" + marked, "SSH_AUTH_SOCK=" + v.workspace + "/sock", "BASH_ENV=" + v.outside + "/f", "LD_PRELOAD=" + marked}})
	if box.Status().Level != level {
		v.t.Skipf("this machine has not the level %v", level)
	}
	of := func(context.Context) (*sandbox.Box, error) { return box, nil }
	policy, err := sandbox.Standard(v.workspace)
	v.must(err)
	if change != nil {
		change(&policy)
	}
	w, err := builtin.New(builtin.Config{Dir: v.workspace, Commands: shell.Config{Box: of, Look: of, Policy: policy}})
	v.must(err)
	v.t.Cleanup(func() { w.Close() })
	rules, err := permission.Config{Preset: preset, Deny: permission.Rules("Read(.env)")}.Policy()
	v.must(err)
	asked = new(int)
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Name: "agent", Policy: rules, Memory: new(permission.Memory)}}, Dir: v.workspace, Ask: func(context.Context, tool.Decision) tool.Answer {
		*asked++
		return tool.Answer{Why: tool.NoPerson}
	}}, w.Tools()...)
	return func(args map[string]any) llm.ToolResult {
		raw, err := json.Marshal(args)
		v.must(err)
		return set.Run(waittest.Context(v.t), []llm.ToolCall{{ID: "1", Name: "Bash", Args: raw}})[0]
	}, asked
}

// attacks are commands that nothing asks about in the look box, and in the work box of the preset workspace. BASE, OUT, WS,
// HOME, PORT, MARK and PID stand for what the victim has. Each prints what it found, and changes what it can.
var attacks = []string{
	// Files.
	"echo x > OUT/new; echo x > OUT/f; rm OUT/f; mv OUT/f OUT/g; ln -sf x OUT/f; touch OUT/f; chmod 777 OUT OUT/f; mkdir OUT/d",
	"echo x > link/new; cp f link/f; tee link/f </dev/null",
	"cd .. && echo x > up; echo x > HOME/.bashrc; echo x >> HOME/.profile; mkdir HOME/.config; echo x > HOME/.ssh/authorized_keys",
	"for d in /etc /tmp /var/tmp /dev/shm /usr/local/bin /run /root / /dev /proc /sys; do echo x > $d/MARK; mkdir $d/MARK-d; done",
	"python3 -c \"import os; os.chdir('/proc/self/cwd/../..'); open('up', 'w'); os.rename('home', 'h2')\"",
	"rm -r HOME/.cache HOME/.npm HOME/.cargo; echo x > HOME/.cache/go-build/ab/c; echo x > HOME/.npm/c; chmod 777 HOME/.cargo/registry/c; touch HOME/.npm/c",
	"python3 -c \"import os; os.truncate('OUT/f', 0)\"; python3 -c \"import os; os.setxattr('OUT/f', 'user.x', b'1')\"; truncate -s 9 OUT/f; fallocate -l 9 OUT/f; dd if=/dev/zero of=OUT/f count=1",
	// What the user's next program obeys.
	"echo x > .git/hooks/pre-commit; mkdir -p .git/hooks; echo 'touch OUT/ran' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
	"git config core.fsmonitor 'touch OUT/ran'; printf '[core]\\nfsmonitor = x\\n' >> .git/config; git config --worktree core.pager x; echo ../x > .git/commondir; mv .git .g; mv .git/config c",
	"echo x > .envrc; mkdir .vscode .husky .idea; echo x > .bashrc; echo x > .mcp.json; echo x > AGENTS.md; ln -s x CLAUDE.md; echo x > .gitmodules; echo x > .pre-commit-config.yaml",
	// Sockets and the network.
	"python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', PORT), 1); s.send(b'x')\"; echo x > /dev/tcp/127.0.0.1/PORT; echo x > /dev/udp/127.0.0.1/PORT",
	"python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('WS/sock')\"; python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0MARK')\"",
	"python3 -c \"import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.connect('WS/sock')\"; python3 -c \"import socket; socket.socket(40, 1)\"; python3 -c \"import socket; socket.socket(38, 5)\"",
	// Processes.
	"setsid sh -c 'trap \"\" HUP TERM INT; exec -a MARK-left sleep 1000' & nohup bash -c 'exec -a MARK-left sleep 1000' >/dev/null 2>&1 & disown -a; echo 'touch OUT/at' | at now; (crontab -l; echo '* * * * * touch OUT/at') | crontab -",
	"python3 -c \"import os, signal, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n  for n in (0, 1, 2): os.close(n)\n  os.execv('/bin/sleep', ['MARK-left', '1000'])\n os._exit(0)\n\"",
	"kill -9 PID -1; kill -STOP PID; renice -n 19 PID; taskset -p 1 PID; prlimit --pid PID --nofile=1",
	// Secrets.
	"cat HOME/.ssh/* HOME/.aws/* HOME/.bash_history /etc/shadow; head -c 100 HOME/.ssh/id_ed25519",
	"env; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ /proc/PID/environ; cat /proc/*/environ /proc/*/task/*/environ",
	"python3 -c \"import os\nfor d, _, names in os.walk('WS'):\n for n in names:\n  p = os.path.join(d, n)\n  if os.path.isfile(p): print(open(p, 'rb').read())\"",
	"mv sub sub2; ln sub/e* h; sh -c 'cat s*/.e*' x; tar c . | cat; grep -r SECRET .; python3 -c \"print(open('.e' + 'nv').read(), open('hard').read())\"",
	"cat /proc/1/root/BASE/outside/key.pem /proc/self/root/OUT/../home/.ssh/id_ed25519; ls -la /proc/1/fd /proc/1/cwd/",
	"python3 -c \"import ctypes; l = ctypes.CDLL(None); [print(l.syscall(n, PID, 0, 0, 0, 0)) for n in (101, 250, 298, 310, 311, 321, 425, 438)]; print(l.syscall(248, b'user', b'MARK', b'x', 1, -4))\"",
	"for n in vda sda nvme0n1 mem kmem kmsg; do head -c 99 /dev/$n; done; mknod d b 254 0 && head -c 99 d; mount -t proc x /mnt; unshare -r id; chroot / id; debugfs -R ls /dev/vda",
	// Devices and streams.
	"echo x > /proc/self/fd/0; echo x >&0; exec 5<>/dev/tty; python3 -c \"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')\"; python3 -c \"import os; print([os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd')])\"",
	"echo x > /proc/sys/kernel/core_pattern; echo x > /proc/sysrq-trigger; echo 1 > /proc/sys/vm/drop_caches; echo c > /sys/power/state; mkdir /sys/fs/cgroup/MARK; hostname MARK; date -s 2001-01-01; dmesg -C",
}

// A command that nobody was asked about has no effect beyond its box, and finds nothing that is kept from commands.
func TestUnaskedCommandsDoNoHarm(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.Native, sandbox.Bwrap} {
		for _, preset := range []string{"standard", "workspace"} {
			t.Run(level.String()+"/"+preset, func(t *testing.T) {
				t.Parallel()
				v := newVictim(t)
				run, asked := v.agent(level, preset, nil)
				fill := strings.NewReplacer("BASE", v.base, "OUT", v.outside, "WS", v.workspace, "HOME", v.home, "MARK", v.mark, "PID", v.pid, "PORT", fmt.Sprint(v.tcp.Addr().(*net.TCPAddr).Port))
				questions := 0
				for _, command := range attacks {
					command = fill.Replace(command)
					r := run(map[string]any{"command": "{ " + command + "\n} 2>&1", "timeout": 20})
					if strings.Contains(r.Text, marked) {
						t.Errorf("%s\nprinted a secret:\n%s", command, r.Text)
					}
					if left, _ := exec.Command("pgrep", "-f", v.mark+"-left").Output(); len(left) > 0 {
						t.Errorf("%s\nleft the processes %s", command, left)
					}
					if got := v.state(); got != v.before && preset == "standard" {
						t.Fatalf("%s\nchanged\n%s", command, difference(v.before, got))
					}
					questions += *asked
					*asked = 0
				}
				if v.heardNothing(); questions > 3 {
					t.Errorf("%d commands were asked about, and show nothing", questions)
				}
				for _, line := range strings.Split(difference(v.before, v.state()), "\n") {
					if line != "" && !strings.Contains(line, v.workspace) {
						t.Errorf("outside of the workspace: %s", line)
					}
				}
				for _, name := range []string{".git/config", ".git/hooks", ".git/commondir", ".envrc", ".vscode", ".husky", ".bashrc", ".mcp.json", "AGENTS.md", "CLAUDE.md", ".gitmodules"} {
					if text, err := os.ReadFile(filepath.Join(v.workspace, name)); err == nil && (name != ".git/config" || strings.Contains(string(text), "fsmonitor")) {
						t.Errorf("%s holds %s", name, text)
					} else if _, err := os.Lstat(filepath.Join(v.workspace, name)); err == nil && name != ".git/config" {
						t.Errorf("%s is there", name)
					}
				}
			})
		}
	}
}

// What a box does not hold is a question, and so is what no box holds but a few plain commands on files of the workspace.
func TestWhatNoBoxHoldsIsAsked(t *testing.T) {
	everything := func(p *sandbox.Policy) { *p = sandbox.Permissive() }
	network := func(p *sandbox.Policy) { p.Network = sandbox.NetworkFull }
	for _, c := range []struct {
		level    sandbox.Level
		preset   string
		change   func(*sandbox.Policy)
		access   string
		commands []string
	}{
		{sandbox.Native, "standard", nil, "write", []string{"touch made", "make", "git add ."}},
		{sandbox.Native, "standard", nil, "network", []string{"ls", "curl x", "git fetch"}},
		{sandbox.Native, "workspace", nil, "network", []string{"ls", "make"}},
		{sandbox.Native, "permissive", nil, "network", []string{"true", "ls"}},
		{sandbox.Native, "none", nil, "", []string{"ls", "git status", "make"}},
		{sandbox.Native, "workspace", everything, "write", []string{"touch OUT/new", "make"}},
		{sandbox.Native, "workspace", network, "write", []string{"echo x > /dev/tcp/127.0.0.1/PORT"}},
		{sandbox.Landlock, "workspace", nil, "", []string{"ls", "make", "touch made"}},
		{sandbox.Off, "workspace", nil, "", []string{
			"touch OUT/new", "make", "git status", "git diff", "hostname MARK", "cat OUT/key.pem", "cat link/key.pem", "cat link/../home/notes", "cat /proc/PID/environ", "cat /proc/self/root/etc/passwd",
			"cat ../notes", "cat ~/notes", "ls /", "PATH=.; ls", "for PATH in .; do ls; done", "ls() { cat OUT/key.pem; }; ls", "ls > made", "cat <(cat OUT/key.pem)", "cd ..; cat notes", "find . -delete", "sort -o f f",
			"LD_PRELOAD=./f ls", "ls $(touch made)", "trap 'touch made' EXIT; ls", "coproc ls", "head -n 1 $HOME/notes", "tail -f f --pid=1", "stat /", "file -f OUT/key.pem", "echo x | tee made",
		}},
	} {
		t.Run(strings.Join([]string{c.level.String(), c.preset, c.access}, " "), func(t *testing.T) {
			v := newVictim(t)
			run, asked := v.agent(c.level, c.preset, c.change)
			fill := strings.NewReplacer("OUT", v.outside, "MARK", v.mark, "PID", v.pid, "PORT", fmt.Sprint(v.tcp.Addr().(*net.TCPAddr).Port))
			for _, command := range c.commands {
				args := map[string]any{"command": fill.Replace(command)}
				if c.access != "" {
					args["access"] = c.access
				}
				if r := run(args); *asked != 1 || strings.Contains(r.Text, marked) {
					t.Errorf("%s: asked %d times: %s", args["command"], *asked, r.Text)
				}
				*asked = 0
			}
			if got := v.state(); got != v.before {
				t.Error(difference(v.before, got))
			}
			v.heardNothing()
		})
	}
}

// heardNothing checks that the listeners were not reached: a connection of its own is the first.
func (v *victim) heardNothing() {
	v.t.Helper()
	for _, l := range []net.Listener{v.tcp, v.local, v.abstract} {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		v.must(err)
		_, err = c.Write([]byte("self"))
		v.must(err)
		c.Close()
		first, err := l.Accept()
		v.must(err)
		text := make([]byte, 9)
		n, _ := first.Read(text)
		if first.Close(); string(text[:n]) != "self" {
			v.t.Errorf("%v was reached", l.Addr())
		}
	}
}

// difference returns the lines that are in one of two texts only.
func difference(was, is string) string {
	var out []string
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}
