package permission_test

import (
	"testing"

	"symbio/security/permission"
)

// A variable that a program sets itself is a word that only the shell knows, and never more.
func TestVariablesOfAProgram(t *testing.T) {
	t.Setenv("INHERITED", "x")
	p := policy(t, "allow: Bash(ok:*); Bash(echo:*); Bash(cat:*); Bash(git:*); Bash(find:*); Bash(sort:*); Bash(make:*); Bash(curl:*); Bash(xargs:*); Bash(timeout:*); Bash(flock:*); Bash(env:*); Bash(nice:*); Bash(sqlite3:*); Bash(socat:*); Bash(printf:*); Bash(cp:*); Bash(mkdir:*); Bash(awk:*); Bash(sed:*); Bash(go:*); Bash(test:*); Bash(dc:*) | default: ask")
	for command, want := range map[string]permission.Action{
		`X=$(ok); echo "$X" $X`: permission.Allow, `V=1; git show "v$V"`: permission.Allow, `X=a; ok "$X"`: permission.Allow, `export FOO=bar && echo $FOO`: permission.Ask, `read -r a b; echo "$a$b"`: permission.Allow,
		`while IFS= read -r l; do echo "$l"; done`: permission.Allow, `echo ${PWD##*/} "${X%.*}" ${#X} ${X:1:2} ${X:-a}`: permission.Ask, `X=a; curl -H "A: $X" https://example.com/`: permission.Allow, `X=a; curl "https://example.com/$X"`: permission.Allow, `X=a; make "V=$X"`: permission.Allow,
		`X=$(evil); echo "$X"`: permission.Ask, `X=evil; $X`: permission.Ask, `X=evil; "$X" a`: permission.Ask, `X=-delete; find . $X`: permission.Ask, `X=-delete; find . "$X"`: permission.Ask, `X=-o; sort "$X" f`: permission.Ask, `X=-c; git "$X" log`: permission.Ask, `V=x; git show "$V"`: permission.Ask,
		`X='a[$(evil)]'; echo $((X))`: permission.Ask, `X='a[$(evil)]'; test -v "$X"`: permission.Ask, `X='a[$(evil)]'; [[ $X -eq 1 ]]`: permission.Ask, `X='a[$(evil)]'; echo ${b[$X]}`: permission.Ask, `X='$(evil)'; echo "${X@P}"`: permission.Ask, `X=evil; eval "$X"`: permission.Ask, `X='a[$(evil)]'; echo "${Y:X}"`: permission.Ask,
		`X='a[$(evil)]'; printf -v "$X" a`: permission.Ask, `X='a[$(evil)]'; read "$X"`: permission.Ask, `X='%n'; printf "a$X" PATH`: permission.Ask, `X='a%n PATH'; printf x$X`: permission.Ask, `X=LD_PRELOAD=x; export $X`: permission.Ask, `X=LD_PRELOAD=x; export "$X"`: permission.Ask,
		`X=evil; sh -c "$X"`: permission.Ask, `X=-n; flock "$X" ok evil`: permission.Ask, `X="KILL 5 evil"; timeout -s $X 5 ok`: permission.Ask, `X="A evil"; env -u $X ok`: permission.Ask, `X="1 evil"; nice -n $X ok`: permission.Ask, `X=ok; echo evil | xargs -I "$X" ok`: permission.Ask, `X=evil; xargs "$X"`: permission.Ask,
		`PATH=.; ok`: permission.Ask, `read PATH; ok`: permission.Ask, `IFS=x; ok`: permission.Ask, `LD_PRELOAD=x; ok`: permission.Ask, `BASH_ENV=x; ok`: permission.Ask, `SECONDS='a[$(evil)]'; echo`: permission.Ask, `INHERITED=y; ok`: permission.Ask, `INHERITED=y; echo a`: permission.Ask, `PAGER=evil; git log`: permission.Ask, `GIT_DIR=evil; git log`: permission.Ask,
		`export FOO=bar; ok`: permission.Ask, `ok; export FOO=bar`: permission.Ask, `declare -x FOO=bar; ok`: permission.Ask, `builtin export FOO=bar; ok`: permission.Ask, `FOO=a; export FOO; ok`: permission.Ask, `for i in 1 2; do ok; export GOFLAGS=-toolexec=evil; done`: permission.Ask, `export LANG=C; ok`: permission.Allow,
		`X=SHELL=evil; make "$X"`: permission.Ask, `X=evil; make "SHELL=$X"`: permission.Ask, `X=L=evil; make "SHEL$X"`: permission.Ask, `X=e:///x; curl "fil$X"`: permission.Ask, `X=:evil; git clone "ext:$X"`: permission.Ask, `X='%output{f}'; curl -w "a$X" https://example.com/`: permission.Ask, `X='.shell evil'; sqlite3 d "select $X"`: permission.Ask, `X='!evil'; dc -e "1 $X"`: permission.Ask, `X=EXEC:evil; socat - "$X"`: permission.Ask,
		`X=' -extld evil'; go build -ldflags "-s $X"`: permission.Ask, `X='system("evil")'; awk "BEGIN{$X}"`: permission.Ask, `X=1e; sed "$X"`: permission.Ask, `T=.git/hooks/pre-commit; cp x "$T"`: permission.Ask, `T=.git/hooks; mkdir -p "$T/x"`: permission.Ask, `X=f; ok > "$X"`: permission.Ask, `X=..; cd "$X"; echo a > f`: permission.Ask,
		`for f in a; do f=evil; $f; done`: permission.Ask, `for f in ok; do read -r f; $f; done`: permission.Ask,
	} {
		if v := judged(p, bash(command)); !fits(v, want) {
			t.Errorf("%s: %v, %s", command, v.Action, v.Why)
		}
	}
	for _, command := range []string{`X=evil; $X`, `X=vil; e$X`, `X='-c evil'; sh $X`, `export X=evil; ok -c "$X"; $X`} {
		if v := judged(policy(t, "deny: Bash(evil:*) | default: allow"), bash(command)); v.Action == permission.Allow {
			t.Errorf("%s where evil is denied: %v, %s", command, v.Action, v.Why)
		}
	}
	for _, command := range []string{`F=.env; cat "$F"`, `F=.en; cat "${F}v"`, `read -r f; cat "$f"`} {
		if v := (permission.Chain{{Policy: policy(t, "deny: Read(.env) | allow: Bash(cat:*) | default: ask")}}).Judge(bash(command)); v.Action == permission.Allow {
			t.Errorf("%s where .env is denied: %v, %s", command, v.Action, v.Why)
		}
	}
}
