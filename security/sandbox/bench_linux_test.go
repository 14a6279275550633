package sandbox_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"symbio/security/sandbox"
)

// BenchmarkRun is /bin/true at each level as a session has it, with a directory for temporary files of its own, and
// once without; beside bwrap alone and a plain exec, in turns in one run, so that all meet the same weather.
// It reports the median, and how much more than the plain exec it is: the budget is 13 ms.
func BenchmarkRun(b *testing.B) {
	dir, temp := b.TempDir(), b.TempDir()
	p, err := sandbox.Standard(dir)
	if err != nil {
		b.Fatal(err)
	}
	p.Network = sandbox.NetworkNone
	for _, l := range levels {
		x := sandbox.Probe(b.Context(), sandbox.Config{Levels: []sandbox.Level{l}})
		if x.Status().Level != l {
			continue
		}
		s := sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dir, Temp: temp, Accept: true}
		run := func() error {
			_, err := x.Run(b.Context(), p, s)
			return err
		}
		b.Run(l.String(), func(b *testing.B) { versusPlain(b, run) })
		if s.Temp = ""; l == sandbox.Native {
			b.Run(l.String()+"-without-a-session", func(b *testing.B) { versusPlain(b, run) })
		}
	}
	if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
		return
	}
	b.Run("bwrap-alone", func(b *testing.B) {
		versusPlain(b, func() error {
			return exec.Command("/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", dir,
				dir, "--", "/bin/true").Run()
		})
	})
}

func versusPlain(b *testing.B, run func() error) {
	var took, floor []time.Duration
	for b.Loop() {
		floor = append(floor, timed(b, func() error { return exec.Command("/bin/true").Run() }))
		took = append(took, timed(b, run))
	}
	t, f := median(took), median(floor)
	b.ReportMetric(0, "ns/op") // of both together: of no use
	b.ReportMetric(float64(t.Microseconds())/1000, "ms")
	b.ReportMetric(float64((t-f).Microseconds())/1000, "ms-more")
	b.ReportMetric(float64(t)/float64(f), "x-floor")
}

func timed(b *testing.B, f func() error) time.Duration {
	begun := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
