package permission_test

import (
	"strings"
	"testing"

	"symbio/security/permission"
)

// What a program runs is seen by deny rules, and is not allowed by a rule for that program.
func TestProgramsThatRunOthers(t *testing.T) {
	for _, command := range strings.Split(strings.TrimSpace(`
jobs -x evil
ssh-agent evil
ssh-agent -t 5 evil
dc -e '!evil'
dc -e '1 p' -e '!evil'
dc --expression='!evil'
logsave -a log evil
aa-exec -p x -- evil
cgexec -g cpu:x evil
sem 'evil x'
sem --id a -j2 evil
sshpass -p x evil
pee cat evil
pee 'cat' 'evil x'
mispipe 'ok' 'evil x'
hyperfine 'ok' 'evil x'
concurrently ok 'evil x'
capsh -- -c 'evil x'
capsh --drop=x -- -c 'evil x'
parallel evil ::: a
parallel ::: 'evil a'
parallel {} ::: evil
parallel -j4 evil {} ::: a b
rush 'evil {}'
watchexec 'evil x'
entr -s 'evil x'
strace -o '|evil' ok
lldb -o 'platform shell evil'
lldb -- evil
rr record evil
zrun evil
lckdo lock evil
setlock lock evil
datefudge 2020-01-01 evil
x86_64 evil
tsp evil
run0 evil
systemd-cat -t x evil
xterm -e evil
proot -r / evil
mpirun -n 2 evil
op run -- evil
aws-vault exec me -- evil
corepack evil
flatpak run evil
chrt -f 1 evil
taskset -c 1 evil
prlimit --nofile=1 evil
gosu me evil
catchsegv evil
ltrace evil
expect -c 'spawn evil'
gnuplot -e 'system "evil"'
printf '%n' PATH
printf x%5ln PATH
printf -- '-%n' PATH
`), "\n") {
		head, _, _ := strings.Cut(command, " ")
		if strings.HasPrefix(command, "printf") || head == "jobs" {
			if v := judged(policy(t, "allow: Bash("+head+":*) | default: ask"), bash(command)); !fits(v, permission.Ask) {
				t.Errorf("%s: %v, %s", command, v.Action, v.Why)
			}
		} else if head != "lldb" && head != "expect" && head != "gnuplot" { // interpreters: a rule for them is a rule for what they do
			if v := judged(policy(t, "allow: Bash("+head+":*); Bash(ok); Bash(cat) | default: ask"), bash(command)); !fits(v, permission.Ask) {
				t.Errorf("%s: %v, %s", command, v.Action, v.Why)
			}
		}
		if !strings.HasPrefix(command, "printf") {
			if v := judged(policy(t, "deny: Bash(evil:*) | default: allow"), bash(command)); v.Action == permission.Allow {
				t.Errorf("%s where evil is denied: %v, %s", command, v.Action, v.Why)
			}
		}
	}
	for _, command := range []string{"unheard-of evil", "unheard-of -x 'evil a'", "run-parts d"} {
		if v := judged(policy(t, "deny: Bash(evil:*) | default: allow"), bash(command)); !fits(v, permission.Ask) {
			t.Errorf("%s where evil is denied: %v, %s", command, v.Action, v.Why)
		}
	}
}

// su and runuser take options behind the user, and pass what follows -- to the user's shell.
func TestDenySeesCommandOfSu(t *testing.T) {
	for _, command := range []string{
		"su -c 'evil x'", "su bob -c 'evil x'", "su - bob -c 'evil x'", "su -l bob -c 'evil x'", "su - -c 'evil x'", "su bob - -c 'evil x'",
		"su bob -- -c 'evil x'", "su -- bob -c 'evil x'", "su - bob -- -c 'evil x'", "su bob x -c 'evil x'", "su bob -- -lc 'evil x'", "su bob --command 'evil x'",
		"runuser - bob -c 'evil x'", "runuser bob -c 'evil x'", "runuser -l bob -c 'evil x'", "runuser bob -- -c 'evil x'", "runuser -u bob evil x", "runuser -u bob -- evil x",
		"flock -- f -c 'evil x'",
	} {
		if v := judged(policy(t, "deny: Bash(evil:*) | default: allow"), bash(command)); v.Action != permission.Deny {
			t.Errorf("%s where evil is denied: %v, %s", command, v.Action, v.Why)
		}
		head, _, _ := strings.Cut(command, " ")
		if v := judged(policy(t, "allow: Bash("+head+":*) | default: ask"), bash(command)); !fits(v, permission.Ask) {
			t.Errorf("%s where only %s is allowed: %v, %s", command, head, v.Action, v.Why)
		}
	}
}

// Options and operands of guarded programs that write a file or run something are no part of a rule for the program.
func TestProgramsThatWrite(t *testing.T) {
	for command, want := range map[string]permission.Action{
		"git fast-export --export-marks=f HEAD": permission.Ask, "git fast-export HEAD": permission.Allow, "git fast-import --export-marks f": permission.Ask, "git checkout-index --prefix=/x/ -a": permission.Ask, "git checkout-index --pref=/x/ -a": permission.Ask,
		"git mailsplit -o/x m": permission.Ask, "git credential-store --file f store": permission.Ask, "git format-patch -o d HEAD~1": permission.Ask, "git format-patch -1 --stdout": permission.Allow, "git bundle create f HEAD": permission.Ask, "git bundle verify f": permission.Allow,
		"git archive -o f HEAD": permission.Ask, "git archive HEAD": permission.Allow, "git index-pack -o f p": permission.Ask, "git read-tree --index-output=f HEAD": permission.Ask, "git mailinfo m p": permission.Ask, "git pack-objects p": permission.Ask, "git merge-file a b c": permission.Ask, "git unpack-file HEAD": permission.Ask,
		"nm --plugin x.so a": permission.Ask, "nm a": permission.Allow, "ss -D f": permission.Ask, "ss -tlnp": permission.Allow, "pdflatex -shell-escape a.tex": permission.Ask, "pdflatex a.tex": permission.Allow, "gofmt -cpuprofile=f a.go": permission.Ask, "gofmt -l .": permission.Allow,
		"socat - EXEC:sh": permission.Ask, "socat - CREAT:f": permission.Ask, "socat - /x": permission.Ask, "socat - TCP:a:1!!EXEC:sh": permission.Ask, "openssl s_client -keylogfile f": permission.Ask, "ncat -x f a 1": permission.Ask, "dc -e '1 2 + p'": permission.Allow, "dc -e '2 3 !=a'": permission.Allow,
		"printf '%d\\n' 1": permission.Allow, "printf '100%%n'": permission.Allow, "printf '%s %s\\n' \"$HOME\" none": permission.Allow, "printf '%-10s|\\n' n": permission.Allow,
	} {
		head, _, _ := strings.Cut(command, " ")
		if v := judged(policy(t, "allow: Bash("+head+":*) | default: ask"), bash(command)); !fits(v, want) {
			t.Errorf("%s: %v, %s", command, v.Action, v.Why)
		}
	}
}
