package main

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"symbio/security/sandbox"
)

// BenchmarkACommandInTheSandbox is /bin/true in the sandbox of this whole program, which its helper is a copy of; beside
// bwrap alone and a plain exec, in turns, so that all meet the same weather. The budget is 13 ms more than the plain one.
func BenchmarkACommandInTheSandbox(b *testing.B) {
	dir, temp := b.TempDir(), b.TempDir()
	p, err := sandbox.Standard(dir)
	if err != nil {
		b.Fatal(err)
	}
	p.Network = sandbox.NetworkNone
	box := sandbox.Probe(b.Context(), sandbox.Config{Levels: []sandbox.Level{sandbox.Native}, TempDir: b.TempDir()})
	if box.Status().Level != sandbox.Native {
		b.Skip("this machine lets nobody make namespaces")
	}
	if _, err := exec.LookPath("/usr/bin/bwrap"); err != nil {
		b.Skip("needs bwrap to compare with")
	}
	runs := []func() error{
		func() error { return exec.Command("/bin/true").Run() },
		func() error {
			_, err := box.Run(b.Context(), p, sandbox.Spec{Argv: []string{"/bin/true"}, Dir: dir, Temp: temp})
			return err
		},
		func() error {
			return exec.Command("/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", dir, dir, "--", "/bin/true").Run()
		},
	}
	took := make([][]time.Duration, len(runs))
	for b.Loop() {
		for i, run := range runs {
			begun := time.Now()
			if err := run(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
	mid := b.N / 2
	floor, native, bwrap := took[0][mid], took[1][mid], took[2][mid]
	b.ReportMetric(0, "ns/op") // of all together: of no use
	b.ReportMetric(floor.Seconds()*1e3, "plain-ms")
	b.ReportMetric((native-floor).Seconds()*1e3, "ms-more")
	b.ReportMetric((bwrap-floor).Seconds()*1e3, "bwrap-ms-more")
	b.ReportMetric(float64(native)/float64(floor), "x-floor")
	b.ReportMetric((took[1][b.N/10]-took[0][b.N/10]).Seconds()*1e3, "quiet-ms-more") // the best tenth: when the machine is loaded
	b.ReportMetric((took[2][b.N/10]-took[0][b.N/10]).Seconds()*1e3, "quiet-bwrap-ms-more")
}
