/** The name of the file by which a fault point is armed. */
export const fileNameOf = (point: string): string => point.replaceAll(/[^a-z]+/g, "-");
