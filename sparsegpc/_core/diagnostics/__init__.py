"""What a fit lacks, as the deviations of the data from it show."""
