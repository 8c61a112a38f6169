# find_package(kda): static or shared, with the packages that a static libkda needs again.
