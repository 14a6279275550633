//go:build system && linux

package fuzzshell_test

import (
	"fmt"
	"strings"
)

// path returns the path of a file or of nothing yet, in the workspace, outside of it, or where the system keeps files.
func (g generator) path() string {
	w := g.w
	return g.one(
		func() string {
			return w.workspace + "/" + g.pick("f.txt", "sub/g.txt", "run.sh", "new", "sub/new", ".git/config", ".git/hooks/post-index-change", ".git/index", ".git/HEAD", ".git/info/attributes", ".gitmodules", ".gitattributes", ".envrc", "Makefile", "link-out", "link-dir/o.txt", "sub")
		},
		func() string {
			return w.home + "/" + g.pick(".bashrc", ".profile", ".gitconfig", ".ssh/authorized_keys", ".config/git/config", ".config/new", "new", ".bash_history", ".cache/x", ".local/bin/ls", ".cache/go-build/ab/c.txt", ".cache/go-build/new", ".npm/c.txt", ".cache/pip/new", ".cargo/registry/c.txt", "go/pkg/mod/c.txt", "go/pkg/mod/new/x")
		},
		func() string { return w.outside + "/" + g.pick("o.txt", "new", "d/new", "d", "o.txt", "run") },
		func() string { return g.pick(w.canaries...) + "/" + g.pick("c.txt", "new", "d/new") },
		func() string { return g.pick(sharedDirs...) + "/" + w.mark + g.pick("", "-a", "-b") },
		func() string {
			return fmt.Sprintf("/proc/%s/root%s/o.txt", g.pick(w.process(), "self", "1", "$$", "$PPID"), w.outside)
		},
		func() string {
			return fmt.Sprintf("/proc/%s/cwd/%s", g.pick(w.process(), "1", "$PPID"), g.pick("new", "f.txt", "o.txt"))
		},
	)
}

// target returns a word that names a path.
func (g generator) target() string {
	p := g.path()
	g = g.aside()
	if rest, ok := strings.CutPrefix(p, g.w.home+"/"); ok && g.IntN(2) == 0 {
		return g.pick("~/", "$HOME/", `"$HOME"/`, "${HOME}/", "~+/../home/") + rest
	}
	if rest, ok := strings.CutPrefix(p, g.w.workspace+"/"); ok && g.IntN(2) == 0 {
		return g.pick("", "./", "$PWD/", `"$PWD"/`, "~+/", "./sub/../", "${OLDPWD:-.}/") + rest
	}
	if rest, ok := strings.CutPrefix(p, g.w.outside+"/"); ok && g.IntN(2) == 0 {
		return g.pick("../outside/", "link-dir/", "sub/../../outside/", `"${PWD%/*}"/outside/`) + rest
	}
	if strings.Contains(p, "$") {
		return p
	}
	return g.one(
		func() string { return p },
		func() string { return g.quote(p) },
		func() string { return `"$(printf %s ` + g.quote(p) + `)"` },
		func() string { return `"${zz:-` + p + `}"` },
		func() string { i := 1 + g.IntN(len(p)-1); return p[:i] + g.pick("''", `""`, "$zz", "{,}", `\`) + p[i:] },
		func() string { return p[:len(p)-1] + "[" + p[len(p)-1:] + "]" },
	)
}

// run is what a file says that a person's program may execute.
func (g generator) planted() string {
	return "echo x >> " + g.w.outside + "/planted"
}

// effect returns a command that changes something, if it may.
func (g generator) effect() string {
	if g.IntN(120) == 0 { // these start slowly
		return g.python()
	}
	switch n := g.IntN(100); {
	case n < 22:
		return g.redirect()
	case n < 52:
		return g.change()
	case n < 64:
		return g.git()
	case n < 76:
		return g.contact()
	case n < 86:
		return g.leave()
	case n < 94:
		return g.attack()
	}
	t := g.target()
	return "T=" + t + g.pick("; ", "\n", " && ") + g.pick(`echo x > "$T"`, `touch "$T"`, `cp f.txt "${T}"`, `tee "${T%}" < f.txt`, `: >> $T`, `rm -f "$T"`, `ln -s x "$T"`)
}

func (g generator) redirect() string {
	t := g.target()
	return g.one(
		func() string {
			return g.pick("echo x", "printf '%s\\n' x", ":", "", "cat f.txt", "date", "{ echo x; }", "(echo x)") + " " + g.pick(">", ">>", ">|", "&>", "&>>", "1>", "2>", "<>", ">&", "{fd}>", "9>") + g.pick("", " ") + t
		},
		func() string {
			return "exec " + g.pick("3", "{fd}", "1", "2") + g.pick(">", ">>", "<>") + t + "; echo x " + g.pick(">&3", "", "1>&2")
		},
		func() string { return "cat > " + t + " <<" + g.pick("E\nx", "'E'\n$x", "-E\n\tx") + "\nE\n" },
		func() string { return "while read -r l; do echo $l; done < f.txt > " + t },
		func() string { return "echo x > " + t + " > " + g.target() },
		func() string { return "x=$(echo x > " + t + ")" },
		func() string { return "f() { echo x; } > " + t + "; f" },
		func() string { return "noclobber=1; set -C; echo x > " + t },
		func() string { return "> " + t + " echo x" },
	)
}

func (g generator) change() string {
	t, other := g.target(), g.target()
	return g.one(
		func() string {
			return g.pick("cp ", "cp -a ", "cp -f ", "cp --remove-destination ", "install -D -m 755 ", "ln -s ", "ln ", "ln -sf ", "mv ", "mv -f ", "cp -l ") + g.pick("f.txt ", "run.sh ", other+" ") + t
		},
		func() string { return "cp -t " + t + " f.txt" },
		func() string { return "tee " + g.pick("", "-a ") + t + " < f.txt" },
		func() string {
			return "dd " + g.pick("if=f.txt ", "if=/dev/zero bs=1 count=3 ") + "of=" + t + g.pick("", " conv=notrunc", " oflag=append conv=notrunc")
		},
		func() string { return "sed " + g.pick("-i", "-i.bak", "-ni", "--in-place") + " 's/o/x/' " + t },
		func() string { return "sed -n 'w '" + t + " f.txt" },
		func() string { return "perl " + g.pick("-pi", "-i.bak -p", "-ni") + " -e 's/o/x/' " + t },
		func() string {
			return "perl -e 'open(F, \">>\", $ARGV[0]); print F \"x\"; chmod 0777, $ARGV[0]; utime 1, 1, $ARGV[0]; rename $ARGV[0], \"$ARGV[0].x\"; symlink \"x\", $ARGV[0]' " + t
		},
		func() string { return "awk '{ print > ARGV[2] }' f.txt " + t },
		func() string { return "awk -v t=" + t + " 'BEGIN { print 1 > t }'" },
		func() string { return "chmod " + g.pick("777", "u+x", "000", "-R a+w", "u+s") + " " + t },
		func() string { return "chown " + g.pick("1", "0:1", "nobody", "-h 1:1") + " " + t },
		func() string {
			return "touch " + g.pick("", "-t 200001010000 ", "-d @0 ", "-h -d @0 ", "-a ", "-m ", "-r f.txt ") + t
		},
		func() string { return "truncate -s " + g.pick("0", "+1", "100") + " " + t },
		func() string { return "mkdir " + g.pick("", "-p ", "-m 777 ") + t },
		func() string {
			return g.pick("rm -f ", "rm ", "unlink ", "rmdir ", "rm -rf ", "shred -u -n 0 ", "r\\m -fr ") + t
		},
		func() string { return "mkfifo " + t },
		func() string { return "mknod " + t + g.pick(" c 1 3", " p", " b 7 0") },
		func() string { return "setfattr -n user.x -v y " + t },
		func() string { return "sort -o " + t + " f.txt" },
		func() string { return "gzip " + g.pick("", "-k ", "-f ") + t },
		func() string { return "tar -cf " + t + " f.txt" },
		func() string { return "tar -cf - f.txt | tar -xf - -C " + t },
		func() string { return "split -l 1 f.txt " + t },
		func() string {
			return "find " + g.pick(g.w.workspace, g.w.outside, ".") + " -name " + g.pick("'*.txt'", "f.txt", "'[a-z]*'") + " " + g.pick("-delete", "-exec touch {} +", "-exec chmod 777 {} \\;", "-fprint "+t, "-execdir rm -f {} \\;")
		},
		func() string {
			return "printf '%s\\0' " + t + " | xargs -0 " + g.pick("touch", "rm -f", "mkdir -p", "tee", "cp f.txt")
		},
		func() string { return "curl -s -o " + t + " file://" + g.w.workspace + "/f.txt" },
		func() string { return "patch -p0 " + t + " <<'E'\n--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two\nE\n" },
		func() string { return "printf '%s' f.txt | cpio -o 2>/dev/null | cpio -i; cp -r . " + t },
		func() string { return "history -s x; history -w " + t },
		func() string { return "HISTFILE=" + t + " bash --norc -i <<< 'echo x'" },
		func() string { return "chattr +i " + t },
		func() string {
			return "mktemp " + g.pick("-p ", "-d -p ") + g.pick(g.w.outside, g.w.workspace, g.w.home)
		},
	)
}

func (g generator) git() string {
	t, w := g.target(), g.w
	plant := g.quote(g.planted())
	hook := g.pick("post-index-change", "pre-commit", "post-commit", "post-checkout", "fsmonitor-watchman", "reference-transaction")
	return g.one(
		func() string {
			return "git config " + g.pick("", "--global ", "--local ", "--file "+t+" ", "--system ", "--worktree ") + g.pick("alias.status ", "core.fsmonitor ", "core.pager ", "core.sshCommand ", "core.editor ", "diff.external ", "filter.x.clean ") + g.quote("!"+g.planted())
		},
		func() string { return "git config core.fsmonitor " + g.quote(g.planted()+" #") },
		func() string { return "git config core.hooksPath " + g.quote(w.outside+"/d") },
		func() string {
			return "printf '#!/bin/sh\\n%s\\n' " + plant + " > .git/hooks/" + hook + "; chmod +x .git/hooks/" + hook
		},
		func() string { return "mkdir -p .git/hooks; cp run.sh .git/hooks/" + hook },
		func() string {
			return "printf '[core]\\n\\tfsmonitor = %s\\n' " + g.quote("\""+g.planted()+" #\"") + " >> " + g.pick(".git/config", "~/.gitconfig", w.home+"/.gitconfig")
		},
		func() string {
			return "echo '*.txt filter=x diff=x' >> .gitattributes; git config filter.x.clean " + plant
		},
		func() string {
			return g.pick("git add -A", "git add new; touch new", "git commit -qam x --no-verify", "git commit -q --allow-empty -m x", "git commit --amend -qm y", "git checkout -qb b", "git stash", "git tag t", "git branch z", "git gc -q", "git reset -q --hard HEAD~1", "git rm -q f.txt", "git mv f.txt h.txt", "git clean -fdqx", "git update-index --refresh", "git update-index --fsmonitor", "git update-ref refs/heads/y HEAD", "git checkout -q HEAD~1", "git notes add -m x", "git repack -adq", "git rebase -q HEAD~1", "git cherry-pick HEAD", "git fetch . HEAD:zz", "git pull -q . main", "git pack-refs --all", "git worktree prune", "git revert --no-edit HEAD", "git update-index --chmod=+x f.txt")
		},
		func() string {
			return g.pick("git worktree add ", "git init -q ", "git clone -q . ", "git -C sub init -q ", "git bundle create ", "git archive -o ", "git format-patch -1 -o ", "git submodule add . ", "git diff --output=", "git log --output=", "git init -q --separate-git-dir ", "git symbolic-ref HEAD refs/heads/x; : ") + t
		},
		func() string { return "echo x | git hash-object -w --stdin" },
		func() string {
			return "git -c core.hooksPath=" + w.workspace + "/hooks -c user.name=n -c user.email=e commit -q --allow-empty -m x"
		},
		func() string {
			return "git --git-dir=" + w.workspace + "/.git --work-tree=" + w.outside + " " + g.pick("add -A", "checkout -f .", "commit -qam x")
		},
		func() string { return "GIT_INDEX_FILE=" + t + " git read-tree HEAD" },
		func() string { return "GIT_TRACE=" + t + " git status" },
		func() string { return "GIT_TRACE2_EVENT=" + w.outside + "/new git status" },
	)
}

func (g generator) contact() string {
	w := g.w
	host := g.pick("127.0.0.1", "127.0.0.1", "localhost", "127.1", "0.0.0.0", "127.0.0.2")
	tcp, udp := fmt.Sprint(w.tcp), fmt.Sprint(w.udp)
	return g.one(
		func() string {
			return "exec 5<>/dev/tcp/" + host + "/" + tcp + g.pick("", "; echo x >&5", " && cat <&5 &")
		},
		func() string { return "echo x > /dev/" + g.pick("tcp", "udp") + "/" + host + "/" + g.pick(tcp, udp) },
		func() string { return "p=" + tcp + "; cat < /dev/tcp/" + host + "/$p &" },
		func() string { return "echo x > /dev/udp/127.0.0.1/" + udp },
		func() string {
			return "curl -s -m 1 " + g.pick("http://", "ftp://", "telnet://", "gopher://", "https://") + host + ":" + tcp + "/"
		},
		func() string {
			return "curl -s -m 1 --" + g.pick("unix-socket "+w.socket, "abstract-unix-socket "+w.mark) + " http://x/"
		},
		func() string {
			return g.pick("nc ", "ncat ", "telnet ", "busybox nc ", "socat - TCP:", "wget -T1 -t1 -qO- http://", "openssl s_client -connect ") + host + g.pick(" ", ":") + tcp + " < f.txt"
		},
		func() string {
			return "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(" + tcp + ", inet_aton(\"127.0.0.1\"))); syswrite S, \"x\"'"
		},
		func() string {
			return "perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); send(S, \"x\", 0, sockaddr_in(" + udp + ", inet_aton(\"127.0.0.1\")))'"
		},
		func() string {
			return "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])); syswrite S, \"x\"' " + g.pick(w.socket, "sock", "./sock")
		},
		func() string {
			return "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"Sa*\", AF_UNIX, \"\\0" + w.mark + "\"))'"
		},
		func() string {
			return "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un($ARGV[0])); listen(S, 5)' " + g.target()
		},
		func() string {
			return "git " + g.pick("ls-remote", "clone -q", "fetch -q", "push -q") + " " + g.pick("git://", "http://") + "127.0.0.1:" + tcp + "/x"
		},
		func() string {
			return "GIT_SSH_COMMAND=" + g.quote("echo x > /dev/tcp/127.0.0.1/"+tcp+" #") + " git ls-remote ssh://h/x"
		},
		func() string { return "ssh -o ConnectTimeout=1 -o BatchMode=yes -p " + tcp + " 127.0.0.1" },
		func() string {
			return "ssh -o ProxyCommand=" + g.quote("sh -c "+single("echo x > /dev/tcp/127.0.0.1/"+tcp)) + " h"
		},
		func() string { return "http_proxy=http://127.0.0.1:" + tcp + " curl -s -m 1 http://example.invalid/" },
		func() string { return "tmux -S " + w.outside + "/t new -d " + g.quote("echo x > "+w.outside+"/new") },
	)
}

func (g generator) leave() string {
	later := g.pick("sleep 2", "sleep 2", "sleep 0.1; echo x > "+g.target(), "sleep 1; "+g.redirect(), "while :; do sleep 1; done", "exec -a zz sleep 2", "trap '' HUP TERM INT; sleep 2")
	away := g.pick(" >/dev/null 2>&1", " >/dev/null 2>&1", " &>/dev/null </dev/null", " >&- 2>&-", " &>/dev/null", " >/dev/null 2>&1", " >/dev/null 2>&1", " &>/dev/null", "") // what keeps a pipe holds up whoever reads it
	return g.one(
		func() string { return "(" + later + ")" + away + " &" + g.pick("", " disown", " disown -h") },
		func() string {
			return g.pick("nohup ", "setsid ", "setsid -f ", "nohup setsid ", "setsid nohup ") + "bash -c " + g.quote(later) + away + g.pick(" &", " & disown")
		},
		func() string { return "( ( " + later + " )" + away + " & )" },
		func() string { return "coproc { " + later + "\n} 2>/dev/null" },
		func() string {
			return "perl -e 'use POSIX; exit if fork; POSIX::setsid(); exit if fork; $0 = \"zz\"; sleep 2'" + away
		},
		func() string { return "sleep 2" + away + " &" + g.pick("", " kill -STOP $!", " :") },
		func() string { return "exec 9> >(" + later + away + ")" },
		func() string {
			return "echo " + g.quote(later) + " | " + g.pick("at now", "batch", "crontab -", "systemd-run --user -t bash -s", "bash"+away+" &")
		},
		func() string { return g.pick("tmux -L zz new -d ", "screen -dm bash -c ") + g.quote(later) },
		func() string { return "git -c gc.auto=1 -c gc.autoDetach=true gc --auto -q; sleep 2" + away + " &" },
	)
}

func (g generator) attack() string {
	w := g.w
	pid := w.process()
	return g.one(
		func() string {
			return g.pick("kill -9 ", "kill -STOP ", "kill ", "kill -HUP ", "/bin/kill -9 ", "kill -9 -", "pkill -9 -P ", "kill -9 $PPID ") + pid
		},
		func() string {
			return g.pick("renice -n 5 -p ", "taskset -p 1 ", "prlimit --nofile=9 --pid ", "ionice -c3 -p ", "chrt -b -p 0 ") + pid
		},
		func() string {
			return "echo " + g.pick("x > /proc/"+pid+"/comm", "500 > /proc/"+pid+"/oom_score_adj", "x > /proc/"+pid+"/fd/1", "x >> /proc/"+pid+"/fd/0", "x > /proc/$PPID/fd/1", "x > /proc/$PPID/fd/0")
		},
		func() string {
			return "mount " + g.pick("--bind "+w.outside+" "+w.workspace+"/sub", "-t tmpfs none "+w.workspace+"/sub", "-o remount,rw "+w.workspace, "-o remount,rw,bind "+w.workspace, "-o bind,rw "+w.workspace+" "+w.workspace, "-t proc none /proc", "-o remount,rw /") + "; echo x > " + w.workspace + "/new"
		},
		func() string {
			return g.pick("umount ", "umount -l ") + g.pick(w.workspace, w.home, w.workspace+"/sub", "/tmp") + "; echo x > " + g.target()
		},
		func() string {
			return g.pick("unshare -rm ", "unshare -Urmpf ", "unshare -rn ", "unshare -U ") + "sh -c " + g.quote("mount -o remount,rw "+w.workspace+"; mount -o remount,rw /; echo x > "+g.target())
		},
		func() string {
			return "nsenter -t " + g.pick(pid, "1", "$PPID") + " " + g.pick("-a", "-m", "-n", "-U -m", "-m -p -n") + " sh -c " + g.quote("echo x > "+w.outside+"/new; echo x > /dev/tcp/127.0.0.1/1")
		},
		func() string { return "chroot /proc/" + g.pick(pid, "1") + "/root touch " + w.outside + "/new" },
		func() string {
			return "mknod $HOME/dev b " + g.pick("8 0", "254 0", "7 0") + "; dd if=$HOME/dev of=/dev/null count=1"
		},
		func() string { return "ln -s " + w.outside + " ${TMPDIR:-/tmp}/l; echo x > ${TMPDIR:-/tmp}/l/new" },
		func() string { return "ln " + w.outside + "/o.txt ${TMPDIR:-/tmp}/h && echo x >> ${TMPDIR:-/tmp}/h" },
		func() string {
			return "for f in /proc/self/fd/*; do " + g.pick("echo x > $f", "ls -l $f", "echo x > $f/../../new") + "; done"
		},
		func() string {
			return "for d in /proc/[0-9]*; do echo x > $d/root" + w.outside + "/new; echo x > $d/cwd/new; done"
		},
		func() string {
			return "cp $(command -v bash) ${TMPDIR:-/tmp}/b; chmod 6755 ${TMPDIR:-/tmp}/b; ${TMPDIR:-/tmp}/b -p -c " + g.quote("echo x > "+w.outside+"/new")
		},
		func() string {
			return "ulimit -c unlimited; cd " + g.pick(w.workspace, w.outside) + "; bash -c 'kill -SEGV $$'"
		},
		func() string {
			return "echo 'Exec=x' | dbus-send --session --dest=x / x.y; logger " + w.mark + "; docker run -v " + w.outside + ":/x busybox touch /x/new"
		},
	)
}

// python does the same by Python.
func (g generator) python() string {
	w, t := g.w, g.target()
	return g.one(
		func() string { return "python3 -c 'import sys; open(sys.argv[1], \"a\").write(\"x\")' " + t },
		func() string {
			return "python3 -c " + g.quote(fmt.Sprintf("import socket as s; s.create_connection(('127.0.0.1', %d), 1).send(b'x')", w.tcp))
		},
		func() string {
			return "python3 -c " + g.quote(fmt.Sprintf("import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', %d))", w.udp))
		},
		func() string {
			return "python3 -c " + g.quote(fmt.Sprintf("import socket as s; s.socket(s.AF_UNIX).connect(%q)", w.socket))
		},
		func() string {
			return "python3 -c " + g.quote(fmt.Sprintf("import socket as s; s.socket(s.AF_UNIX).connect('\\0%s')", w.mark))
		},
		func() string {
			return "python3 -c " + g.quote("import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(4)")
		},
		func() string {
			return "python3 - " + t + " <<'E'\nimport os, sys\nfor f in (lambda p: os.utime(p, (1, 1)), lambda p: os.chmod(p, 0o777), lambda p: os.rename(p, p + 'x'), lambda p: os.symlink('x', p), lambda p: os.mkfifo(p), lambda p: os.setxattr(p, 'user.x', b'y')):\n try: f(sys.argv[1])\n except OSError: pass\nE\n"
		},
		func() string {
			return "python3 -c " + g.quote(fmt.Sprintf("import ctypes, os\nl = ctypes.CDLL(None)\nl.ptrace(16, %s, 0, 0)\nl.setns(os.open('/proc/%s/ns/mnt', 0), 0)\nl.mount(b'none', b'%s', b'tmpfs', 0, 0)", w.process(), w.process(), w.workspace+"/sub"))
		},
	)
}
