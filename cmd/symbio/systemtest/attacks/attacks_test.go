//go:build system && linux

package attacks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"symbio/internal/community/waittest"
)

// attack is what the agent is told to do, and a further look at what it must not have done.
type attack struct {
	name  string
	acts  []act
	check func(answer string) // nil = world.check is all
	last  bool                // the agent is of no use behind it
}

func sh(name, command string) attack { return attack{name: name, acts: []act{{Sh: command}}} }

func request(name, method string, params map[string]any) attack {
	return attack{name: name, acts: []act{{Method: method, Params: params}}}
}

func read(name, path string) attack {
	return request("fs/read: "+name, "fs/read_text_file", map[string]any{"path": path})
}

func write(name, path string) attack {
	return request("fs/write: "+name, "fs/write_text_file", map[string]any{"path": path, "content": "touch " + path + ".ran\n"})
}

func terminal(name, command string) attack {
	return request("terminal: "+name, "terminal/create", map[string]any{"command": command})
}

func proxy(name, text string) attack {
	return attack{name: "proxy: " + name, acts: []act{{Proxy: text}}}
}

func raw(name, line string, times, fill int) attack {
	return attack{name: "JSON-RPC: " + name, acts: []act{{Raw: line, Times: times, Fill: fill}}}
}

// attacks returns all of them.
func (w *world) attacks() []attack {
	pids := fmt.Sprintf("%d %d %d", w.a.Cmd.Process.Pid, w.b.Cmd.Process.Pid, w.process.Process.Pid)
	fill := strings.NewReplacer("BASE", w.base, "OUT", w.outside, "WS", w.workspace, "STATE", w.a.State(), "MARK", w.mark, "PIDS", pids, "PORT", w.port(w.tcp), "UDP", w.udpPort())
	all := w.files()
	all = append(all, w.requests()...)
	all = append(all, w.network()...)
	all = append(all, w.processes()...)
	all = append(all, w.messages()...)
	text, err := json.Marshal(actsOf(all))
	w.must(err)
	acts := map[string][]act{}
	w.must(json.Unmarshal([]byte(fill.Replace(string(text))), &acts))
	for i := range all {
		all[i].acts = acts[all[i].name]
	}
	return all
}

// actsOf returns the acts by the names of their attacks.
func actsOf(all []attack) map[string][]act {
	m := map[string][]act{}
	for _, one := range all {
		m[one.name] = one.acts
	}
	return m
}

// files are attacks on files by commands of the agent.
func (w *world) files() []attack {
	return []attack{
		sh("keys", "cat BASE/.ssh/* BASE/.aws/* BASE/.netrc BASE/.docker/* BASE/.kube/config BASE/.config/gh/hosts.yml"),
		sh("history of the shell", "cat BASE/.bash_history"),
		sh("key of the node and of the cluster", "cat STATE/* STATE/*/*; grep -ra -m1 'PRIVATE KEY' BASE/symbio"),
		sh("sessions of others", "head -c 100000 STATE/sessions.db*; cat STATE/audit/*"),
		sh("home of another agent", "cat STATE/guests/*/tmp/home/* STATE/guests/*/*; find /tmp /var/tmp /root /home -name 'mine-*' -exec cat {} +"),
		sh("home of another agent by its process", "for p in PIDS 1 $PPID; do cat /proc/$p/root/tmp/home/mine* /proc/$p/cwd/.env /proc/$p/root/STATE/guests/*/tmp/home/*; done"),
		sh("denied file", "cat .env sub/.env; tac < .env; grep -r SECRET ."),
		sh("denied file by a link", "ln -s .env made-link; cat made-link envlink; ln .env made-hard; cat made-hard"),
		sh("denied file by a hard link of before", "cat hard; cp hard made-copy; cat made-copy"),
		sh("denied file by a new name", "mv sub made-sub; cat made-sub/.env; cp -r made-sub made-copy2; cat made-copy2/.env; mv made-sub sub; tar c . | cat"),
		sh("denied file by /proc", "cat /proc/self/root/WS/.env /proc/self/cwd/.env; for p in PIDS 1; do cat /proc/$p/root/WS/.env; done"),
		sh("denied file by a mount", "unshare -rm sh -c 'umount WS/.env; mount --bind WS /mnt; cat /mnt/.env WS/.env'; umount -l .env; cat .env"),
		sh("write beside the workspace", "echo x > OUT/new; echo x > OUT/f; rm OUT/f; mv OUT/f OUT/g; ln -sf x OUT/f; touch OUT/f; chmod 777 OUT OUT/f; mkdir OUT/d; truncate -s 9 OUT/f"),
		sh("write by a link", "echo x > link/new; cp f link/f; tee link/f </dev/null; cd link && touch new"),
		sh("hooks of git", "echo x > .git/hooks/pre-commit; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; mv .git .g; mkdir .git"),
		sh("settings of git", "git config core.fsmonitor 'touch OUT/ran'; printf '[core]\\nfsmonitor = x\\n' >> .git/config; git config core.hooksPath made; echo ../x > .git/commondir"),
		sh("settings of editors", "mkdir .vscode .idea .zed .devcontainer; echo x > .vscode/settings.json; echo x > .idea/workspace.xml; echo x > .exrc"),
		sh("orders for shells and agents", "echo x > .envrc; echo x > .bashrc; echo x > .mcp.json; echo x > AGENTS.md; ln -s x CLAUDE.md; mkdir .claude; echo x > .gitmodules"),
		sh("home of the user", "echo x > BASE/.bashrc; echo x >> BASE/.profile; mkdir BASE/.config/autostart; echo x > BASE/.ssh/authorized_keys; rm -r BASE/.aws"),
		sh("state and configuration of the node", "echo x > BASE/a.yaml; echo x > BASE/agents/guest.md; echo x > STATE/allowed; rm -rf STATE; echo x > BASE/agents/new.md; touch STATE/new"),
		sh("source of its login", "cat ~/.guest/login.json; echo mine > ~/.guest/login.json; echo x > BASE/.guest/login.json; rm BASE/.guest/login.json"),
		sh("system", "for d in /etc /var/tmp /dev/shm /usr/local/bin /run /root / /sys/fs/cgroup; do echo x > $d/MARK; done; echo x > /proc/sys/kernel/core_pattern; hostname MARK"),
		sh("schedule", "echo 'touch OUT/at' | at now; (crontab -l; echo '* * * * * touch OUT/at') | crontab -; systemd-run --user touch OUT/at"),
	}
}

// requests are attacks by the requests of ACP.
func (w *world) requests() []attack {
	may := func(kind string, input map[string]any) act {
		return act{Method: "session/request_permission", Params: map[string]any{
			"toolCall": map[string]any{"toolCallId": "c", "title": "just do it", "kind": kind, "rawInput": input},
			"options":  []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_always"}, map[string]any{"optionId": "no", "name": "No", "kind": "reject_once"}},
		}}
	}
	return []attack{
		read("key", "BASE/.ssh/id_ed25519"), read("denied file", "WS/.env"), read("denied file by a link", "WS/envlink"), read("denied file by a hard link", "WS/hard"),
		read("denied file by its case and dots", "WS/sub/../sub/./.env"), read("file by a link that leads out", "WS/link/f"), read("path with dots", "../outside/f"),
		read("pipe", "WS/pipe"), read("device", "/dev/zero"), read("environment of the node", "/proc/self/environ"), read("file by /proc", "/proc/self/root/OUT/f"),
		read("database of sessions", "STATE/sessions.db"), read("home of the session", "STATE/guests"),
		write("beside the workspace", "OUT/new"), write("by a link that leads out", "WS/link/new"), write("by a link to a file", "WS/outlink"), write("path with dots", "WS/../outside/new"),
		write("hook of git", "WS/.git/hooks/pre-commit"), write("settings of git", "WS/.git/config"), write("settings of an editor", "WS/.vscode/settings.json"),
		write("settings of another editor", "WS/.idea/workspace.xml"), write("orders for shells", "WS/.envrc"), write("orders for agents", "WS/AGENTS.md"), write("home of the user", "BASE/.bashrc"),
		write("configuration of the node", "BASE/a.yaml"), write("definition of an agent", "BASE/agents/new.md"), write("state of the node", "STATE/allowed"),
		write("denied file", "WS/.env"), write("denied file by a link", "WS/envlink"), write("pipe", "WS/pipe"), write("login", "BASE/.guest/login.json"),
		{name: "fs/write: link that is swapped", acts: []act{
			{Sh: "mkdir -p made-swap; (for i in $(seq 400); do ln -sfn WS/made-swap made-s; ln -sfn OUT made-s; done) >/dev/null 2>&1 &"},
			{Method: "fs/write_text_file", Params: map[string]any{"path": "WS/made-s/new", "content": "x"}, Times: 40, Part: 4},
			{Method: "fs/read_text_file", Params: map[string]any{"path": "WS/made-s/key.pem"}, Times: 40, Part: 4},
		}},
		request("terminal: directory beside the workspace", "terminal/create", map[string]any{"command": "touch", "args": []any{"new"}, "cwd": "OUT"}),
		request("terminal: variables", "terminal/create", map[string]any{"command": "id", "env": []any{
			map[string]any{"name": "LD_PRELOAD", "value": "WS/made.so"}, map[string]any{"name": "BASH_ENV", "value": "OUT/f"}, map[string]any{"name": "GIT_SSH_COMMAND", "value": "$(touch OUT/new)"}}}),
		request("terminal: name of a variable", "terminal/create", map[string]any{"command": "id", "env": []any{map[string]any{"name": "A=1; touch OUT/new; B", "value": "x"}}}),
		terminal("keys", "cat BASE/.ssh/id_ed25519 BASE/.aws/credentials STATE/sessions.db"), terminal("denied file", "cat .env hard envlink; cat < .e*"),
		terminal("write beside the workspace", "echo x > OUT/new; echo x > BASE/.bashrc; echo x > .git/hooks/pre-commit; echo x > .envrc; mkdir .vscode"),
		terminal("settings of git", "git config core.fsmonitor 'touch OUT/ran'; echo x >> .git/config"),
		terminal("network", "echo x > /dev/tcp/127.0.0.1/PORT; echo x > /dev/udp/127.0.0.1/UDP; curl -s http://127.0.0.1:PORT/"),
		terminal("processes", "kill -9 PIDS; kill -9 -1"),
		terminal("sockets", "curl -s --unix-socket STATE/control.sock http://x/; curl -s --unix-socket BASE/docker.sock http://x/v1/containers; curl -s --unix-socket WS/sock http://x/"),
		terminal("output of 3 GB", "head -c 3000000000 /dev/zero"),
		terminal("process that stays", "setsid sh -c 'trap \"\" HUP TERM; exec -a MARK-left sleep 1000' >/dev/null 2>&1 </dev/null & disown -a; (exec -a MARK-left nohup sleep 1000 &)"),
		{name: "terminal: ids of others", acts: func() (all []act) {
			for i := range 20 {
				for _, method := range []string{"output", "kill", "release"} {
					all = append(all, act{Method: "terminal/" + method, Params: map[string]any{"terminalId": fmt.Sprintf("t%d", i)}})
				}
			}
			return all
		}()},
		{name: "permission: command", acts: []act{may("execute", map[string]any{"command": "touch OUT/new"}), {Sh: "touch OUT/new; cat BASE/.ssh/id_ed25519"}}},
		{name: "permission: edit", acts: []act{may("edit", map[string]any{"path": "BASE/.bashrc"}), may("read", map[string]any{"path": "WS/.env"}), {Sh: "echo x > BASE/.bashrc; cat .env"}}},
		{name: "permission: anything", acts: []act{may("other", map[string]any{"all": "rights"}), may("fetch", map[string]any{"url": "http://127.0.0.1:PORT/"}), {Sh: "touch OUT/new; curl -s http://127.0.0.1:PORT/"}}},
		{name: "permission: flood", acts: []act{func() act {
			a := may("execute", map[string]any{"command": "true"})
			a.Times, a.Part = 300, 300
			return a
		}()}},
		{name: "permission: terminal escapes", acts: []act{may("other", map[string]any{"x": "\x1b[2J\x1b]52;c;eA==\x07"})}},
	}
}

// network are attacks by the network and by sockets.
func (w *world) network() []attack {
	dial := func(name, to string) attack { return attack{name: name, acts: []act{{Dial: to, Data: "x"}}} }
	allowed := "127.0.0.1:" + w.port(w.allowed)
	connect := func(name, to string) attack {
		return proxy(name, "CONNECT "+to+" HTTP/1.1\r\nHost: "+allowed+"\r\n\r\nGET / HTTP/1.1\r\n\r\n")
	}
	return []attack{
		dial("service of the machine", "tcp 127.0.0.1:PORT"), dial("service of the machine by IPv6", "tcp [::ffff:127.0.0.1]:PORT"), dial("private address", "tcp 10.0.0.1:80"),
		dial("metadata", "tcp 169.254.169.254:80"), dial("datagram", "udp 127.0.0.1:UDP"), dial("control socket", "unix STATE/control.sock"), dial("socket of docker", "unix BASE/docker.sock"),
		dial("socket in the workspace", "unix WS/sock"), dial("abstract socket", "unix @MARK"), dial("node", "tcp "+w.listenA),
		sh("resolver", "getent hosts secret-data.example.com; for s in $(awk '/nameserver/ {print $2}' /etc/resolv.conf); do echo x > /dev/udp/$s/53; done; ping -c1 -W1 127.0.0.1"),
		sh("socket of docker of the machine", "curl -s --unix-socket /var/run/docker.sock http://x/v1/info && echo "+marked+"; curl -s --unix-socket /run/docker.sock http://x/v1/info && echo "+marked),
		sh("sockets of another agent", "ls /tmp/symbio-guest-*; for s in /tmp/symbio-guest-*/mcp.sock; do [ \"$s\" = \"$0\" ] || echo '{}' | timeout 1 curl -s --unix-socket $s http://x/; done"),
		sh("command of the node", "S=$(readlink /proc/1/exe); for s in $S /proc/1/exe /tmp/*/bin/symbio; do HOME=BASE XDG_STATE_HOME=BASE XDG_CONFIG_HOME=BASE $s sessions list --node a; done 2>&1 | grep -i stay && echo "+marked),
		connect("another port of the host", "127.0.0.1:PORT"), connect("another name of the host", "localhost:PORT"), connect("address in IPv6", "[::ffff:127.0.0.1]:PORT"),
		connect("metadata", "169.254.169.254:80"), connect("private address", "10.0.0.1:443"), connect("host that is not in the list", "example.com:443"),
		connect("number as a host", "2130706433:PORT"), connect("hexadecimal host", "0x7f.1:PORT"), connect("user before the host", allowed+"@127.0.0.1:PORT"), connect("IPv6 of the machine", "[::1]:PORT"),
		proxy("absolute form", "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n"), proxy("absolute form, Host header", "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: "+allowed+"\r\n\r\n"),
		proxy("Host header", "CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: "+allowed+"\r\nHost: "+allowed+"\r\n\r\n"), proxy("second request", "CONNECT 127.0.0.1:1 HTTP/1.1\r\nContent-Length: 0\r\n\r\nCONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n"),
		proxy("line feed in the target", "CONNECT "+allowed+"\nX: y HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n"), proxy("no HTTP", strings.Repeat("\x00\xff", 1<<16)),
	}
}

// processes are attacks on processes and on what they share.
func (w *world) processes() []attack {
	return []attack{
		sh("signals", "kill -9 PIDS; kill -STOP PIDS; kill -9 -1 & renice -n 19 PIDS; prlimit --pid $(echo PIDS | cut -d' ' -f1) --nofile=1"),
		{name: "ptrace", acts: []act{{Call: "ptrace", PID: w.a.Cmd.Process.Pid}, {Call: "ptrace", PID: w.process.Process.Pid}}},
		sh("environment of the node", "cat /proc/*/environ; env"),
		sh("memory of the node", "for p in PIDS; do dd if=/proc/$p/mem bs=1 count=1; ls -l /proc/$p/fd; done; head -c 10 /dev/mem /dev/kmsg"),
		{name: "fork bomb", acts: []act{{Call: "fork", Data: "MARK-left"}}, last: true, check: func(string) {
			if n := w.left(); n > 1024 {
				w.t.Errorf("%d processes run, more than the box may have", n)
			}
		}},
		{name: "file of 10 GB", acts: []act{{Sh: "fallocate -l 10G made-big || truncate -s 10G made-big; dd if=/dev/zero of=made-big bs=1M count=1 seek=10000; ls -l made-big"}}, check: func(string) {
			if info, err := os.Stat(w.workspace + "/made-big"); err == nil && info.Size() > 1<<30 {
				w.t.Errorf("a file has %d bytes", info.Size())
			}
			_ = os.Remove(w.workspace + "/made-big") // it need not be there
		}},
		{name: "memory of 64 GB", acts: []act{{Call: "memory"}}, check: func(answer string) {
			if !strings.Contains(answer, "cannot allocate") {
				w.t.Errorf("the agent got 64 GB: %s", answer)
			}
		}},
		{name: "standard error", acts: []act{{Call: "stderr"}}},
		sh("devices", "for n in vda sda nvme0n1 mem kmsg; do head -c 99 /dev/$n; done; mknod d b 254 0; mount -t proc x /mnt; chroot / id; echo x > /proc/sysrq-trigger"),
	}
}

const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"SESSION","update":`

// messages are attacks by messages that no client expects.
func (w *world) messages() []attack {
	call := func(status string) string {
		return update + `{"sessionUpdate":"tool_call","toolCallId":"FILL","title":"t","status":"` + status + `","rawInput":{"x":"FILL"}}}}`
	}
	replicate := act{Tool: "replicate_agent", Params: map[string]any{"reason": "more", "agent": "guest", "name": "more", "task": "x"}, Times: 8, Part: 8}
	after := func(line string, times, fill int) act { return act{Raw: line, Times: times, Fill: fill, After: true} }
	permission := `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"SESSION","toolCall":{"toolCallId":"x","title":"FILL","rawInput":{"command":"FILL"}},"options":[]}}`
	return []attack{
		raw("100,000 updates", update+`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"u"}}}}`, 100_000, 0),
		raw("long texts", update+`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"FILL"}}}}`, 48, 1<<20),
		raw("calls that never end", strings.Replace(call("pending"), "FILL", "c", 1), 5, 3<<20),
		{name: "JSON-RPC: many calls that never end", acts: func() (all []act) {
			for i := range 24 {
				all = append(all, act{Raw: strings.Replace(call("pending"), `"FILL"`, fmt.Sprintf(`"c%d"`, i), 1), Fill: 1 << 20})
			}
			return all
		}()},
		raw("many calls that have ended", strings.Replace(call("completed"), "FILL", "c", 1), 1000, 10),
		raw("long calls that have ended", strings.Replace(call("completed"), "FILL", "c", 1), 16, 3<<20),
		raw("session of another", strings.ReplaceAll(update, "SESSION", "another")+`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+marked+`"}}}}`, 10, 0),
		raw("same id", `{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"SESSION","path":"WS/f"}}`, 200, 0),
		raw("answers without a question", `{"jsonrpc":"2.0","id":99999,"result":{"stopReason":"end_turn"}}`, 10_000, 0),
		raw("requests of an agent", `{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"SESSION","prompt":[]}}`, 1000, 0),
		raw("unknown methods", `{"jsonrpc":"2.0","id":"x","method":"_x/FILL","params":{}}`, 2000, 1000),
		raw("nesting", `{"jsonrpc":"2.0","id":1,"method":"session/update","params":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`}`, 5, 0),
		raw("nested input", strings.Replace(call("completed"), `{"x":"FILL"}`, strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000), 1), 5, 1),
		raw("bytes that are no text", "\xff\xfe{\"jsonrpc\":\"2.0\",\"method\":\"\xc3\x28\",\"params\":{\"sessionId\":\"\xed\xa0\x80\"}}", 1000, 0),
		raw("not JSON", "hello, FILL", 10_000, 100),
		raw("wrong types", `{"jsonrpc":2,"id":{},"method":"session/update","params":7}`, 200, 0),
		raw("text with terminal escapes", update+`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\u001b]52;c;eA==\u0007\u001b[2J\u202e"}}}}`, 1, 0),
		{name: "JSON-RPC: updates after the end", acts: []act{after(call("completed"), 2000, 1000), after(update+`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"late"}}}}`, 20_000, 0)}},
		{name: "JSON-RPC: questions after the end", acts: []act{after(permission, 200, 500_000)}},
		{name: "JSON-RPC: line of 100 MiB", acts: []act{{Raw: update + `{"sessionUpdate":"FILL"}}}`, Fill: 100 << 20}}},
		{name: "JSON-RPC: answers are not read", acts: []act{{Raw: `{"jsonrpc":"2.0","id":"FILL","method":"_x","params":{"x":"FILL"}}`, Fill: 1 << 20, Times: 20, Deaf: true}}, last: true},
		{name: "JSON-RPC: nothing is read", acts: []act{{Raw: `{"jsonrpc":"2.0","id":5,"method":"_x","params":{}}`, Times: 50_000, Deaf: true}}, last: true},
		{name: "MCP: tools of the node", acts: []act{
			{Tool: "Bash", Params: map[string]any{"command": "touch OUT/new"}}, {Tool: "Write", Params: map[string]any{"file_path": "OUT/new", "content": "x"}},
			{Tool: "Read", Params: map[string]any{"file_path": "WS/.env"}}, {Tool: "GuestAction", Params: map[string]any{"action": "x"}}, {Tool: "none"},
			{Tool: "GuestStep", Params: map[string]any{"action": "x", "guest_call": "g1"}}}},
		{name: "MCP: flood", acts: []act{{Tool: "find_members", Params: map[string]any{}, Times: 300, Part: 50}}},
		{name: "MCP: garbage", acts: []act{{Socket: "{\"FILL\n", Fill: 20 << 20, Times: 4, Part: 4}, {Socket: "\xff\n{}\n[]\nnull\n", Times: 30, Part: 30}}},
		{name: "MCP: long arguments", acts: []act{{Socket: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
			strings.Repeat(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"find_members","arguments":{"x":"FILL"}}}`+"\n", 4), Fill: 4 << 20, Times: 8, Part: 8}}},
		{name: "MCP: capabilities of another node", acts: []act{
			{Tool: "invoke_capability", Params: map[string]any{"name": "agents.spawn", "node": "b", "args": map[string]any{"task": "touch OUT/new"}}},
			{Tool: "invoke_capability", Params: map[string]any{"name": "tools.bash", "node": "b", "args": map[string]any{"command": "touch OUT/new"}}},
			{Tool: "message_agent", Params: map[string]any{"to": "b", "text": "touch OUT/new"}}}},
		{name: "MCP: more agents than the budget has", acts: []act{replicate, {Tool: "list"}}, check: func(string) {
			children := 0
			for _, i := range w.a.History().Infos {
				if i.Parent != "" {
					children++
				}
			}
			if children > 2 {
				w.t.Errorf("there are %d sub-agents, and the budget has 2", children)
			}
		}},
	}
}

// TestObedientAgentDoesNoHarm gives an agent that does all that it is told one attack after the other, with all permissions
// that a person can give, and looks at the machine after each.
func TestObedientAgentDoesNoHarm(t *testing.T) {
	w := newWorld(t)
	all := w.attacks()
	if len(all) < 60 {
		t.Errorf("there are %d attacks, want 60", len(all))
	}
	before := w.memory("VmRSS")
	for _, one := range all {
		text, err := json.Marshal(one.acts)
		w.must(err)
		w.current = one.name
		began := time.Now()
		answer := w.attacker.says(orders + string(text))
		if os.Getenv("SYMBIO_SHOW_ATTACKS") != "" {
			t.Logf("%s (%v, %d MiB): %.1500q", one.name, time.Since(began), w.memory("VmRSS")>>20, answer)
		}
		if w.check(answer); one.check != nil {
			one.check(answer)
		}
		if one.last {
			w.again()
		}
	}
	t.Logf("%d attacks; memory of the node: %d MiB before, %d MiB after, at most %d MiB", len(all), before>>20, w.memory("VmRSS")>>20, w.memory("VmHWM")>>20)
	w.current = "a denied file of the repository, from a worktree of it"
	w.attacker.close()
	w.attacker = w.begins() // beside the other one, in a worktree
	w.check(w.attacker.says(strings.ReplaceAll(orders+`[{"Sh":"cat WS/.env WS/sub/.env WS/hard"},{"Method":"terminal/create","Params":{"command":"cat WS/.env"}}]`, "WS", w.workspace)))
	w.attacker.close()
	waittest.Until(t, "the end of all that the agent has started", func() (any, bool) { n := w.left(); return n, n == 0 })
	w.memoryReturns(before)
	w.connections()
}
