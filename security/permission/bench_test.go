package permission_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"symbio/security/permission"
)

// BenchmarkJudge decides calls under 200 rules that do not match them, as in a grown configuration. The
// floor is what running any command costs: one exec of /bin/true. Of both the fastest counts, so that
// other work on the machine does not.
func BenchmarkJudge(b *testing.B) {
	p := permission.Standard()
	forms := []string{"mcp__s%d__*", "Bash(tool%d:*)", "WebFetch(domain:h%d.org)", "Write(/w/d%d/*)"}
	for i := range 200 {
		r, err := permission.ParseRule(fmt.Sprintf(forms[i%4], i))
		if err != nil {
			b.Fatal(err)
		}
		p.Deny = append(p.Deny, r)
	}
	p.Allow = append(p.Allow, policy(b, "allow: Bash(git:*); Bash(go test:*); Bash(cd:*); Bash(tail:*); Write(/w/*)").Allow...)
	chain := permission.Chain{{Name: "a", Policy: p}}
	floor := execTrue(b)
	for _, c := range []struct {
		name string
		call permission.Call
	}{
		{"tool", call("find_members")},
		{"path", call("Write", "file_path", "/w/x/y")},
		{"command", bash("git commit -a -m fix")},
		{"pipeline", bash("cd src && go test ./... 2>&1 | tail -20")},
	} {
		b.Run(c.name, func(b *testing.B) {
			const batch = 64
			var best time.Duration
			start, n := time.Now(), 0
			for b.Loop() {
				chain.Judge(c.call)
				if n++; n%batch == 0 {
					if took := time.Since(start); best == 0 || took < best {
						best = took
					}
					start = time.Now()
				}
			}
			b.ReportMetric(float64(best)/batch/float64(floor), "x-exec")
		})
	}
}

// execTrue is the fastest of many starts of /bin/true.
func execTrue(b *testing.B) time.Duration {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip("there is no program true: ", err)
	}
	var best time.Duration
	for range 50 {
		start := time.Now()
		if err := exec.Command(path).Run(); err != nil {
			b.Fatal(err)
		}
		if took := time.Since(start); best == 0 || took < best {
			best = took
		}
	}
	return best
}
