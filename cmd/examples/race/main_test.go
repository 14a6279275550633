package main

func Example() {
	main()
	// Output:
	// slow was cancelled
	// this is quick <nil>
	// slow was cancelled
	// not done in 20ms: context deadline exceeded
	// step 0: model down: not available
	// step 1: model down: not available
}
