package sandbox_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"symbio/security/sandbox"
)

// BenchmarkRun is /bin/true at each level, beside bwrap alone and a plain exec, in turns in one run, so that all meet
// the same weather: the median of each, and how much more than the plain exec it is. The budget is 7 ms more.
func BenchmarkRun(b *testing.B) {
	plain := func() error { return exec.Command("/bin/true").Run() }
	dir := b.TempDir()
	p, err := sandbox.Standard(dir)
	if err != nil {
		b.Fatal(err)
	}
	p.Network = sandbox.NetworkNone
	kinds := []struct {
		name string
		run  func() error
	}{}
	for _, l := range levels {
		x := sandbox.Probe(b.Context(), sandbox.Config{Levels: []sandbox.Level{l}})
		if x.Status().Level != l {
			continue
		}
		kinds = append(kinds, struct {
			name string
			run  func() error
		}{l.String(), func() error {
			_, err := x.Run(b.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dir, Accept: true})
			return err
		}})
	}
	if bwrap, err := exec.LookPath("/usr/bin/bwrap"); err == nil {
		kinds = append(kinds, struct {
			name string
			run  func() error
		}{"bwrap-alone", func() error {
			return exec.Command(bwrap, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", dir, dir, "--", "/bin/true").Run()
		}})
	}
	for _, kind := range kinds {
		b.Run(kind.name, func(b *testing.B) {
			var took, floor []time.Duration
			for b.Loop() {
				floor = append(floor, timed(b, plain))
				took = append(took, timed(b, kind.run))
			}
			t, f := median(took), median(floor)
			b.ReportMetric(0, "ns/op") // of both together: of no use
			b.ReportMetric(float64(t.Microseconds())/1000, "ms")
			b.ReportMetric(float64((t-f).Microseconds())/1000, "ms-more")
			b.ReportMetric(float64(t)/float64(f), "x-floor")
		})
	}
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
