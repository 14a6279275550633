package permission_test

import (
	"strings"
	"testing"

	"symbio/security/permission"
)

// everydayRules are what people write.
const everydayRules = `allow: Read(./*); Write(./build/*); Bash(git status:*); Bash(git diff:*); Bash(git log:*); Bash(git show:*); Bash(git branch:*); Bash(git rev-parse:*); Bash(git add:*); Bash(git commit:*); Bash(git tag:*); Bash(git describe:*); Bash(git ls-files:*);
Bash(ls:*); Bash(cat:*); Bash(head:*); Bash(tail:*); Bash(wc:*); Bash(grep:*); Bash(rg:*); Bash(find:*); Bash(sort:*); Bash(uniq:*); Bash(cut:*); Bash(tr:*); Bash(sed:*); Bash(awk:*); Bash(jq:*); Bash(echo:*); Bash(printf:*); Bash(pwd); Bash(cd:*); Bash(date:*); Bash(basename:*); Bash(dirname:*); Bash(diff:*); Bash(du:*); Bash(df:*); Bash(which:*); Bash(stat:*); Bash(file:*); Bash(test:*); Bash(seq:*); Bash(sleep:*); Bash(xargs:*); Bash(tee:*); Bash(mkdir:*); Bash(nproc); Bash(uname:*); Bash(whoami); Bash(id); Bash(realpath:*);
Bash(go build:*); Bash(go test:*); Bash(go vet:*); Bash(go list:*); Bash(go env:*); Bash(gofmt:*); Bash(npm test:*); Bash(npm run:*); Bash(make:*); Bash(python3 -m pytest:*); Bash(cargo test:*); Bash(curl:*); Bash(ps:*); Bash(mktemp:*); Bash(sha256sum:*); Bash(tree:*); Bash(od:*); Bash(comm:*); Bash(env) | default: ask`

// everyday is what agents run all day.
const everyday = `
X=$(git rev-parse HEAD); echo "$X"
V=1; git show "v$V"
git ls-files | while read -r l; do echo "$l"; done
X=$(date +%s); echo "took $X"
BRANCH=$(git rev-parse --abbrev-ref HEAD) && echo "on $BRANCH"
n=$(git ls-files | wc -l); echo "$n files"
for f in *.go; do echo "$f"; done
for f in $(git ls-files '*.go'); do wc -l "./$f"; done
while IFS= read -r line; do printf '%s\n' "$line"; done <<EOF
a
EOF
git log --oneline | while read -r sha rest; do echo "$sha: $rest"; done
dir=src; ls "./$dir"
export CI=1; npm test
export NO_COLOR=1 && go test ./...
TOTAL=0; echo $TOTAL
MSG="fix: a bug"; git commit -m "$MSG"
git commit -m "$(cat <<'EOF'
fix: a bug

It was wrong.
EOF
)"
COUNT=$(grep -c TODO main.go); if [ "$COUNT" -gt 0 ]; then echo "$COUNT left"; fi
out=$(go vet ./... 2>&1) || echo "$out"
result=$(curl -s https://example.com/health); echo "$result" | jq .status
[ -f go.mod ] && echo yes
if [ -d "$PWD/.git" ]; then git status --short; fi
test -n "$HOME" && echo "$HOME"
find . -name '*.go' | xargs grep -l TODO
find . -name '*.go' -print0 | xargs -0 wc -l
git diff --name-only | xargs gofmt -l
find . -type f -exec grep -l TODO {} +
git ls-files | grep -v vendor | xargs wc -l | sort -n | tail -5
awk '{print $1}' a.txt
awk -F: '{print $1, $3}' /etc/passwd
ps aux | awk '$3 > 5 {print $2, $11}'
du -sk * | sort -n | awk '{s+=$1} END {print s/1024 " MB"}'
awk 'NR==1' a.csv
git log --format=%an | sort | uniq -c | sort -rn | head
sed -n '1,20p' main.go
sed 's/a/b/g' a.txt | head -3
grep -rn "func main" --include='*.go' .
rg -n 'TODO|FIXME' -g '*.go'
cat go.mod | head -5
cd src && go build ./... && cd ..
go test ./... -run TestX -count=1 2>&1 | tail -20
go test -v ./pkg/... | grep -E 'PASS|FAIL' | sort | uniq -c
GOOS=linux GOARCH=arm64 go build -o build/x ./cmd/x
make -j4 test
npm run build 2>&1 | tee /dev/null | tail -5
python3 -m pytest -q tests/ -k 'a and not b'
cargo test --release 2>&1 | tail
mkdir -p build && date > build/stamp
echo "$(date): $(git rev-parse --short HEAD)" > build/version
time go build ./...
timeout 60 go test ./...
nice -n 10 make all
for i in 1 2 3; do echo "$i"; sleep 1; done
for i in $(seq 1 3); do curl -sf https://example.com/ && break; sleep 1; done
i=1; while [ "$i" = 1 ]; do echo once; i=2; done
until curl -sf http://localhost:8080/health; do sleep 1; done
set -euo pipefail; go build ./... && echo ok
set -e
git status && git diff --stat
git log -1 --format='%H %s'
git show HEAD:go.mod | head -3
git diff HEAD~1 -- '*.go' | grep '^+' | wc -l
git branch --list 'feature/*' | tr -d ' *'
git tag --sort=-v:refname | head -1
TAG=$(git describe --tags --abbrev=0); git log "$TAG..HEAD" --oneline
BASE=main; git diff "origin/$BASE...HEAD" --stat
SHA=$(git rev-parse HEAD); printf '%s\n' "$SHA"
ls -la | tail -n +2 | wc -l
ls *.md 2>/dev/null || echo none
cat <<'EOF' | grep a
a
b
EOF
diff <(sort a.txt) <(sort b.txt)
jq -r '.scripts | keys[]' package.json
jq '.version' package.json | tr -d '"'
curl -s https://example.com/api | jq '.items | length'
curl -sS -H 'Accept: application/json' 'https://example.com/a?b=c'
which go && go env GOPATH
uname -a; nproc; whoami; id
df -h . && du -sh .
stat -c %s go.mod
file build/x
sha256sum go.sum | cut -d' ' -f1
basename "$(pwd)"
d=$(dirname "$0"); echo "$d"
root=$(git rev-parse --show-toplevel); echo "in $root"
f=main.go; [ -e "$f" ] && echo "$f is there"
a=1 b=2; echo $a $b
case "$(uname)" in Linux) echo linux;; *) echo other;; esac
case $BRANCH in main) echo no;; esac
[[ -n $CI ]] && echo ci || echo local
[[ "$(git status --porcelain)" == "" ]] && echo clean
if git diff --quiet; then echo same; else echo changed; fi
! grep -q TODO main.go && echo done
{ echo a; echo b; } | sort
(cd src && ls)
echo a; echo b
true && echo yes || false
command -v go >/dev/null && echo have
env | sort | head
printf '%-10s %s\n' name value
printf "%d items\n" 3
tree -L 2 -I node_modules
realpath ../x
head -c 100 main.go | od -c | head -2
git ls-files -z | xargs -0 grep -n 'fmt.Println' || true
go list ./... | grep -v /vendor/ | xargs go vet
go list -f '{{.Dir}}' ./...
grep -n foo a.txt | cut -d: -f1 | while read -r n; do sed -n "1,5p" a.txt; echo "line $n"; done
tmp=$(mktemp -d) && echo "$tmp"
files=$(git diff --name-only --diff-filter=AM); echo "$files" | wc -l
ls | while read -r f; do [ -f "$f" ] && echo "file $f"; done
read -r first < go.mod; echo "$first"
START=$(date +%s); go build ./...; END=$(date +%s); echo "$START $END"
LOG=build/test.log; go test ./... > build/test.log 2>&1; tail -5 build/test.log; echo "see $LOG"
sort -u a.txt | comm -12 - b.txt
`

func TestEverydayCommandsAreNotAskedAbout(t *testing.T) {
	p := policy(t, strings.ReplaceAll(everydayRules, "\n", " "))
	var asked, list []string
	lines := strings.Split(strings.TrimSpace(everyday), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.Contains(line, "<<") && !strings.Contains(line, "<<<") {
			for i++; lines[i] != "EOF"; i++ {
				line += "\n" + lines[i]
			}
			if line += "\nEOF"; strings.Contains(line, "$(cat") {
				i++
				line += "\n" + lines[i]
			}
		}
		list = append(list, line)
	}
	for _, line := range list {
		if v := judged(p, bash(line)); v.Action != permission.Allow {
			asked = append(asked, line+"\n\t"+v.Why)
		}
	}
	if len(list) < 110 || len(asked) > 3 {
		t.Errorf("of %d commands, %d are asked about:\n%s", len(list), len(asked), strings.Join(asked, "\n"))
	}
}
